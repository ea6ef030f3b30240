"""Changes: what can be different about a run, and how it is tried."""
