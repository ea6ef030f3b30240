"""What other numbers of ranks would give, computed from what was measured at a few."""
