from builders import a_loader, a_profile

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.rules.shared_handles import SharedHandles

LINE = Location("train.py", 33)
ARCHIVE = Inherited("handle", "dataset.archive", "zipfile.ZipFile", LINE)


def holding(*held: Inherited, workers: int = 0) -> Profile:
    return a_profile(loader=a_loader(num_workers=workers, inherited=held))


def test_workers_that_share_an_archive_are_a_high_risk() -> None:
    finding = SharedHandles().check(holding(ARCHIVE, workers=2))
    assert (finding.state, finding.kind, finding.severity) == (State.DIAGNOSTIC, Kind.RISK, Severity.HIGH)
    assert finding.title == (
        "2 workers share one open zipfile.ZipFile, `dataset.archive`: "
        "each moves the position at which the others read"
    )
    assert finding.location == LINE and "Open it in each worker" in finding.advice


def test_without_several_workers_it_is_told_what_would_happen() -> None:
    for workers in (0, 1):
        finding = SharedHandles().check(holding(ARCHIVE, workers=workers))
        assert finding.severity is Severity.MEDIUM and "2 workers or more would share" in finding.title


def test_a_dataset_that_holds_nothing_open_passes() -> None:
    generator = Inherited("generator", "dataset.rng", "numpy.Generator", LINE, drawn=True)
    for profile in (holding(workers=4), holding(generator)):
        assert SharedHandles().check(profile).state is State.PASSED
    assert SharedHandles().check(a_profile()).state is State.NOT_APPLICABLE
