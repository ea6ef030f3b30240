"""Taps on losses, gradients, optimizers and gradient scalers."""
