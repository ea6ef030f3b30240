"""Machinery of the strategies: nothing here is tried by itself."""
