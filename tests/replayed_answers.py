"""What a model that exists on paper answers to samples of its dataset."""

from functools import cache
from pathlib import Path

import torch

from advisor.tuners.trial.numerics.kept_outputs import KeptOutputs
from advisor.tuners.trial.served_messages import OutputsTaken, TakeOutputs

CLASSES = 10


def taken(command: TakeOutputs, samples: int, wrong: float, passed: int | None = None) -> OutputsTaken:
    """Scores of classes for so many samples, each value off by ``wrong`` of the usual one.

    Args:
        command: What was asked.
        samples: As many there are.
        wrong: Of the usual value.
        passed: Of a script: requests that it has answered before; its next ones are others.
    """
    count = min(samples, command.most)
    path = Path(command.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _outputs(count, wrong, passed or 0).write(path)
    return OutputsTaken(command.path, count, samples if passed is None else None, False)


@cache
def _outputs(count: int, wrong: float, passed: int) -> KeptOutputs:
    source = torch.Generator().manual_seed(1)
    kept = KeptOutputs()
    for place in range(count):
        scores = torch.randn(1, CLASSES, generator=source)
        error = torch.randn(1, CLASSES, generator=source)
        kept.add(str(place + passed), scores + wrong * error, str(place))
    return kept
