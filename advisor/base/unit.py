"""What a run is counted in: steps of a training, or requests to a trained model."""

from enum import StrEnum


class Unit(StrEnum):
    """The unit whose time is compared."""

    STEP = "step"
    REQUEST = "request"


BOTH = frozenset(Unit)
