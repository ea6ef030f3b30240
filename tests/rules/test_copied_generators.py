from builders import a_loader, a_profile

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.rules.copied_generators import CopiedGenerators

LINE = Location("train.py", 12)


def drawing(*, drawn: bool | None, workers: int = 0) -> Profile:
    generator = Inherited("generator", "dataset.rng", "numpy.Generator", LINE, drawn)
    return a_profile(loader=a_loader(num_workers=workers, inherited=(generator,)))


def test_workers_that_draw_the_same_numbers_are_a_high_risk() -> None:
    finding = CopiedGenerators().check(drawing(drawn=None, workers=2))
    assert (finding.state, finding.kind, finding.severity) == (State.DIAGNOSTIC, Kind.RISK, Severity.HIGH)
    assert finding.title == (
        "2 workers draw the same numbers, each from its copy of `dataset.rng` (numpy.Generator)"
    )
    assert finding.location == LINE and "torch.initial_seed()" in finding.advice


def test_without_workers_nothing_is_wrong_yet() -> None:
    finding = CopiedGenerators().check(drawing(drawn=True))
    assert finding.severity is Severity.LOW and "2 workers would draw" in finding.title


def test_a_generator_that_items_do_not_draw_from_passes() -> None:
    assert CopiedGenerators().check(drawing(drawn=False)).state is State.PASSED
    assert CopiedGenerators().check(a_profile(loader=a_loader())).state is State.PASSED
    assert CopiedGenerators().check(a_profile()).state is State.NOT_APPLICABLE
