"""How long the windows are over which configurations with loader workers are compared."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.profiles.profile import Profile
from advisor.tuners.knob import Value

QUEUE_DEPTHS = 4  # fillings of the loader's queue, at least
LEAST_STEPS = 12
EPOCH_S = 3.0  # an epoch up to that long is measured whole; of a longer one its start is a small part


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

    def steps(self, config: Mapping[str, Value]) -> int | None:
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
    share = loader.batch_size / run.samples_per_step  # an incomplete last batch makes it inexact
    steps_per_batch = float(round(share)) if share >= 1 else 1 / round(1 / share)
    return Epochs(loader.dataset_length, loader.batch_size, steps_per_batch, loader.drop_last)


def window_steps(
    *, depth: int, slot_steps: int, step_s: float, period: int, epoch: int | None, most: int | None
) -> int:
    """Steps that are measured in one window.

    At least four fillings of the queue, so that what was fetched beforehand counts little. An epoch that is
    not long counts whole, or several: in a part of one its start, when workers start or queues are empty,
    would be missing, or have too much weight.

    Args:
        depth: How many batches the loader's workers can run ahead.
        slot_steps: Of a slot, were there no workers.
        step_s: Seconds of a step of the baseline.
        period: Steps after which the order of optimizers repeats.
        epoch: Steps of an epoch, where they are known.
        most: Steps that the program has left.
    """
    unit = period if epoch is None or epoch * step_s > EPOCH_S else math.lcm(epoch, period)
    measured = math.ceil(max(QUEUE_DEPTHS * depth, 2 * slot_steps, LEAST_STEPS) / unit) * unit
    if most is None or measured <= most:
        return measured
    return max(period, most // unit * unit or most)
