from builders import a_profile

from advisor.profiles.facts.observed import Habit, HostFacts, Location
from advisor.stages.diagnosing.process_habits import SENTENCES, habits_told
from advisor.stages.diagnosing.result_findings import profile_summary

PLACE = Location("/home/me/train.py", 12)


def test_each_kind_of_habit_has_a_sentence_that_names_its_first_line() -> None:
    habits = tuple(
        Habit(kind, place, "runs") for kind in SENTENCES for place in (PLACE, Location("/home/me/b.py", 1))
    )
    told = habits_told(a_profile(host=HostFacts(habits=habits)))
    assert len(told) == len(SENTENCES) and all("(train.py:12)" in each for each in told)
    assert "`runs`" in told[0]


def test_they_stand_before_the_other_notes() -> None:
    profile = a_profile(host=HostFacts(habits=(Habit("clock_rate", PLACE),)))
    notes = profile_summary(profile, notes=["not recorded"]).notes
    assert "schedule" in notes[0] and notes[1:] == ["not recorded"]


def test_a_program_without_habits_has_no_note() -> None:
    assert habits_told(a_profile()) == [] and habits_told(a_profile(host=HostFacts())) == []
