"""Benches on other nodes: what engines offer, what is said to a bench, and several of them at work."""
