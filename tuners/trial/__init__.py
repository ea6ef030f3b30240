"""The child's side of a trial: the target run under hooks, measured when told to."""
