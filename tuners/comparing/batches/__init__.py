"""What a larger batch costs and gains: the largest that fits, goodput, the noise of gradients."""
