"""Samples per training batch."""

from typing import Any

from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

FACTORS = (2, 4, 8, 16)
DIVISORS = (2, 4)


class BatchSize(Knob[int]):
    """How many samples one step learns from.

    A larger batch pays the fixed cost of a step (Python, kernel launches, the optimizer) once for more
    samples, and lets other changes act: a small MLP gained 2.25 times from a batch of 512 alone and
    7.8 times together with bf16 and a fused update. It does not always help: at 16 times the batch
    samples per second changed by 2.3 (MLP), 4.9 (recommender), 0.93 (BERT) and 0.49 (LeNet) times
    (2-core CPU). It costs memory.

    What is learnt changes: fewer updates are made per epoch and each sees more samples, so the learning
    rate must follow (see `lr_scaling`) and more samples are spoken for until the same loss. Values are
    absolute and meant for the loaders of the training dataset: frameworks build a second loader from
    the first one. Losses with ``reduction="sum"`` grow with the batch.
    """

    semantics = Semantics.TRAINING
    usual_gain = 0.5
    of_iterator = True

    def values(self) -> range:
        return range(1, 2**20)

    def present(self, profile: Profile) -> int:
        size = _loader(profile).batch_size
        if size is None:
            raise Refused("the DataLoader makes no batches of its own (batch_size=None)")
        return size

    def choices(self, profile: Profile) -> list[int]:
        present = self.present(profile)
        longest = _loader(profile).dataset_length or max(self.values())
        larger = [present * factor for factor in FACTORS if present * factor <= longest]
        smaller = [present // divisor for divisor in DIVISORS if present % divisor == 0]
        if not larger and not smaller:
            raise Refused(f"no other batch size fits a dataset of {longest} items")
        return [present, *larger, *smaller]

    def expected(self, profile: Profile, value: int) -> float | None:
        """Samples per second, of a step whose time is a constant and a part for each sample (replayed)."""
        doubled = profile.replays.double_batch
        if doubled is None:
            return None
        times, each = value / self.present(profile), max(0.0, min(1.0, doubled.share - 1))
        return times / (1 - each + each * times)

    def check(self, value: int, profile: Profile) -> None:
        self.present(profile)
        length = _loader(profile).dataset_length
        if length is not None and value > length:
            raise Refused(f"a batch of {value} is more than the dataset's {length} items")

    def loader(self, arguments: dict[str, Any], value: int) -> None:
        """Set the batch size of one loader.

        Raises:
            Refused: The loader's batches are not made by torch's own batch sampler.
        """
        if arguments.get("batch_sampler") is not None:
            raise Refused("the DataLoader has a batch sampler of its own")
        if arguments.get("batch_size", 1) is None:
            raise Refused("the DataLoader makes no batches of its own (batch_size=None)")
        arguments["batch_size"] = value

    def fixed_in(self, profile: Profile) -> str:
        return (
            "a program reads the length of an epoch (`len(loader)`) before its loop, and the memory that one "
            "size needs is hidden by that of another"
        )

    def change(self, value: int) -> Change:
        return Change(f"DataLoader(..., batch_size={value})")


def _loader(profile: Profile) -> LoaderFacts:
    if profile.loader is None:
        raise Refused("the program uses no DataLoader")
    if profile.loader.own_batch_sampler:
        raise Refused("the DataLoader has a batch sampler of its own")
    return profile.loader
