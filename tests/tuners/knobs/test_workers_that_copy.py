"""Workers are not tried where their copies of what the dataset holds would read or draw something else."""

import pytest
from builders import a_loader, a_rich_profile

from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.num_workers import NumWorkers

LINE = Location("train.py", 33)
ARCHIVE = Inherited("handle", "dataset.archive", "zipfile.ZipFile", LINE)


def holding(*held: Inherited, workers: int = 0) -> Profile:
    loader = a_loader(item_ms=2.0, cpu_share=0.1, inherited=held, num_workers=workers)
    return a_rich_profile(loader=loader)


def drawing(drawn: bool) -> Profile:
    return holding(Inherited("generator", "dataset.rng", "numpy.Generator", LINE, drawn))


def test_one_worker_alone_reads_through_a_handle() -> None:
    knob, profile = NumWorkers(), holding(ARCHIVE)
    assert sorted(knob.choices(profile)) == [0, 1]
    assert knob.left_out(profile) == {
        2: "dataset.archive is an open zipfile.ZipFile, set at line 33, whose position several workers would "
        "share: open it in each worker, then more are worth trying"
    }
    knob.check(1, profile)
    with pytest.raises(Refused, match="open it in each worker"):
        knob.check(4, profile)


def test_no_worker_draws_from_a_copy_of_a_generator() -> None:
    with pytest.raises(Refused, match=r"dataset\.rng .* all would draw the same numbers"):
        NumWorkers().choices(drawing(drawn=True))
    assert NumWorkers().choices(drawing(drawn=False)) == NumWorkers().choices(holding())


def test_what_the_program_does_already_stays() -> None:
    knob, profile = NumWorkers(), holding(ARCHIVE, workers=2)
    assert knob.choices(profile)[0] == 2 and 4 not in knob.choices(profile)
    knob.check(2, profile)
