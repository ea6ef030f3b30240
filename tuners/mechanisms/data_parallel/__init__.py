"""Ranks that hold the whole model, or its shards, and average what they learn."""
