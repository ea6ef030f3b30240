"""Measurements anyone can repeat; results stand in ``benchmarks/results`` with the machine named."""
