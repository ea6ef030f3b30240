from builders import a_loader, a_machine, a_profile

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.facts.observed import Location
from advisor.rules.copied_objects import CopiedObjects

LINE = Location("train.py", 8)


def check(share: float, workers: int) -> Finding:
    """Of a dataset whose list takes this share of the machine's memory."""
    taken = int(share * a_machine().memory_bytes)
    rows = Inherited("objects", "dataset.rows", "list", LINE, bytes=taken)
    return CopiedObjects().check(a_profile(loader=a_loader(num_workers=workers, inherited=(rows,))))


def test_copies_in_all_workers_are_weighed_against_memory() -> None:
    finding = check(0.06, workers=2)
    assert (finding.state, finding.kind, finding.severity) == (State.DIAGNOSTIC, Kind.RISK, Severity.MEDIUM)
    assert "MiB of Python objects in `dataset.rows` are copied into 2 workers" in finding.title
    assert finding.title.endswith("12 % of memory in all") and finding.location == LINE
    assert "`numpy` arrays or tensors" in finding.advice
    assert check(0.06, workers=1).severity is Severity.LOW


def test_little_or_no_workers_pass() -> None:
    assert check(1e-4, workers=2).state is State.PASSED
    assert check(0.5, workers=0).state is State.PASSED


def test_a_dataset_of_arrays_passes_and_without_a_loader_nothing_is_known() -> None:
    assert CopiedObjects().check(a_profile(loader=a_loader(num_workers=8))).state is State.PASSED
    assert CopiedObjects().check(a_profile()).state is State.NOT_APPLICABLE
