"""Which configurations are tried, in which order, and what comes of them."""
