"""Keys that servers hold, and workers that push and pull them."""
