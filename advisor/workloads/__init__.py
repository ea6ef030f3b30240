"""A training program given as factories, written by hand or taken from a framework's objects."""
