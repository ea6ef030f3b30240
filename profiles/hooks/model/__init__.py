"""Taps on root modules."""
