"""The Python face: what is called from a notebook or a program of one's own."""
