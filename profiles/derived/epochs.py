"""What one epoch of a program comes to: batches of its loader, and steps."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from advisor.profiles.facts.profile import Profile


@dataclass(frozen=True)
class Epochs:
    """How many steps an epoch of a program has, by the batch size of its loader.

    Attributes:
        samples: Of the training dataset.
        batch_size: As the program sets it.
        steps_per_batch: Below 1 where gradients are accumulated, above where several optimizers step.
        drop_last: Whether the loader leaves an incomplete batch out.
    """

    samples: int
    batch_size: int
    steps_per_batch: float
    drop_last: bool

    def steps(self, config: Mapping[str, Any]) -> int | None:
        """Under a configuration; ``None`` where several ranks share an epoch."""
        if int(config.get("ranks", 1)) != 1:
            return None
        batches = self.samples / int(config.get("batch_size", self.batch_size))
        whole = math.floor(batches) if self.drop_last else math.ceil(batches)
        return max(1, round(whole * self.steps_per_batch))


def epochs_of(profile: Profile) -> Epochs | None:
    """What a program showed of its epochs; ``None`` where they are unknown or of a sampler of its own."""
    run, loader = profile.run, profile.loader
    if run is None or loader is None or loader.own_sampler or loader.own_batch_sampler:
        return None
    if not (loader.dataset_length and loader.batch_size and run.samples_per_step):
        return None
    if run.sample_source != "loader":
        return None
    per_batch = max(1, round(loader.batch_size / run.samples_per_step)) / batches_per_update(profile)
    return Epochs(loader.dataset_length, loader.batch_size, per_batch, loader.drop_last)


def batches_per_update(profile: Profile) -> int:
    """How many of the loader's batches one update learns from: more than one under accumulation."""
    run, loader = profile.run, profile.loader
    if run is None or loader is None or not loader.batch_size:
        return 1
    if run.sample_source != "loader" or run.samples_per_step is None:
        return 1
    return max(1, round(run.samples_per_step / loader.batch_size))
