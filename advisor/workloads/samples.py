"""The samples of a dataset, dealt to what they are for: none serves two purposes."""

import random
from dataclasses import dataclass

CALIBRATION = (0.1, 256)  # of all samples, and at most; ranges of activations need no more
SELECTION = 0.3  # of the rest: to choose among forms of a model
LEAST = 4  # samples that can be dealt at all


@dataclass(frozen=True)
class Samples:
    """Places in a dataset, disjoint by purpose, each in a random order.

    Attributes:
        calibration: For the ranges of a quantised form.
        selection: On which candidates are compared while the search chooses.
        confirmation: On which the chosen one is judged.
    """

    calibration: tuple[int, ...]
    selection: tuple[int, ...]
    confirmation: tuple[int, ...]


def dealt(count: int, seed: int = 0) -> Samples:
    """Deal ``count`` samples; the same for each process with the same seed.

    Raises:
        ValueError: There are fewer than four.
    """
    if count < LEAST:
        raise ValueError(f"the dataset has {count} samples; {LEAST} at least are needed")
    order = list(range(count))
    random.Random(seed).shuffle(order)
    share, most = CALIBRATION
    first = max(1, min(most, round(share * count)))
    second = first + max(1, round(SELECTION * (count - first)))
    return Samples(tuple(order[:first]), tuple(order[first:second]), tuple(order[second:]))
