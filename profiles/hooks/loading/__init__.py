"""Taps on data loaders."""
