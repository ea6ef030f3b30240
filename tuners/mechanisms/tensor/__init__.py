"""Layers divided among ranks."""
