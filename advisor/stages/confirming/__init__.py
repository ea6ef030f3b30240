"""From a winner of the search to an outcome: numerics, fresh processes, a longer run, what is taken out."""
