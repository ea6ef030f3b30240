"""What acts on a step beside the laws: overlap, contention, waiting, ceilings of a node, failures."""
