"""From a result to a patch of the user's program, written and taken back."""
