"""Charts as inline SVG, one file each, and what they are drawn with."""
