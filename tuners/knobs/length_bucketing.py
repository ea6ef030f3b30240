"""Samples of like length in one request to a trained model."""

from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.tuners.knobs.serving_batch import ALONE, OWN
from advisor.workloads.gathering import Gathering

POOLS = (8, 32)  # requests' samples that are sorted together
LEAST = 0.01  # of what the model is given: less is not worth sorting
UNKNOWN = "under `--latency-limit` no request waits until many can be sorted"


class LengthBucketing(Knob[int]):
    """Sorts samples by length before they are put together, so that less of a batch is padding.

    The value is for how many batches samples are taken at once, sorted, and cut: 1 leaves them in their
    order, 8 is a common pool. It needs samples of unlike length and a `collate` that pads to the longest of
    a batch; what is saved is the share of padding, as seen on the first samples. Answers change by rounding,
    as sums have other lengths; a model that does not mask its padding answers otherwise, and is told so by
    the comparison of answers.

    It is for work that is there as a whole: `--objective requests` of a workload. Under `--latency-limit`
    nobody waits for a pool to fill, and it is not tried.
    """

    semantics = Semantics.ROUNDING
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.3
    live = True

    def values(self) -> range:
        return range(1, 2**10)

    def present(self, profile: Profile) -> int:
        if profile.run is None or profile.run.requests_batch is None:
            raise Refused(OWN if profile.target_kind == "script" else ALONE)
        return 1

    def choices(self, profile: Profile) -> list[int]:
        self.present(profile)
        saved = _saved(profile)
        if saved < LEAST:
            raise Refused(f"sorting by length leaves out {saved:.1%} of what the model is given")
        return [1, *POOLS]

    def check(self, value: int, profile: Profile) -> None:
        self.present(profile)
        _saved(profile)

    def expected(self, profile: Profile, value: int) -> float | None:
        """As if time went with what the model is given."""
        saved = None if profile.run is None else profile.run.requests_padding
        return None if saved is None or value == 1 else 1 / (1 - saved)

    def gather(self, plan: Gathering, value: int) -> None:
        """Samples of the next request."""
        plan.pool = value

    def change(self, value: int) -> Change:
        if value == 1:
            return Change("# samples in the order in which they come")
        return Change(
            f"pool = sorted(pool, key=length)  # of {value} batches, then batches of neighbours, in any order"
        )


def _saved(profile: Profile) -> float:
    if profile.run is None or profile.run.requests_padding is None:
        raise Refused(UNKNOWN)
    return profile.run.requests_padding
