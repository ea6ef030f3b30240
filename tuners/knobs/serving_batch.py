"""How many samples a request to a trained model has."""

from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.workloads.gathering import Gathering

LARGEST = 256
FACTORS = (2, 4, 8, 16)
DIVISORS = (2, 4)
OWN = "the program itself puts samples together to requests"
ALONE = "samples are put together under `--objective requests` alone, where each has an output of its own"


class ServingBatch(Knob[int]):
    """Answers several samples in one call of the model: fewer calls, larger products, and longer to wait.

    What it gives is measured per sample. "A 10x speedup or a 5x slowdown" is what the documentation of
    Hugging Face pipelines says of it: slow where samples of unlike length are padded to the longest
    (`length_bucketing`), or where one sample keeps all cores busy. Each sample waits for its batch. With
    `--latency-limit` that counts: up to so many that wait are answered together, and a batch of which two
    take longer than the limit is not tried further.

    It is for `--objective requests` and a workload, where the number is `batch_size`.
    """

    semantics = Semantics.ROUNDING
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.3
    live = True

    def values(self) -> range:
        return range(1, 2**16)

    def present(self, profile: Profile) -> int:
        run = profile.run
        if run is None or run.requests_batch is None:
            raise Refused(OWN if profile.target_kind == "script" else ALONE)
        return run.requests_batch

    def choices(self, profile: Profile) -> list[int]:
        present = self.present(profile)
        larger = [present * factor for factor in FACTORS if present * factor <= LARGEST]
        smaller = [present // divisor for divisor in DIVISORS if present % divisor == 0]
        return [present, *larger, *smaller]

    def check(self, value: int, profile: Profile) -> None:
        self.present(profile)

    def gather(self, plan: Gathering, value: int) -> None:
        """Samples of the next request."""
        plan.size = value

    def change(self, value: int) -> Change:
        return Change(f"batch_size = {value}  # samples of a call of the model")
