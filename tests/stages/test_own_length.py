"""Without planned steps the length of the program counts, where it came to its end."""

import pytest
from confirmation_builder import confirmed, some_settings, told

from advisor.profiles.facts.profile import RunFacts

ENDED = RunFacts(launch_steps=599)  # compiling for 30 s to save 50 ms a step pays back after 600
SETTINGS = some_settings("goodput")


def test_compiling_must_pay_within_the_length_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = confirmed(monkeypatch, SETTINGS, 0.05, run=ENDED)
    assert outcome.verdict == "keep" and outcome.reason.endswith("within 599 steps")
    assert confirmed(monkeypatch, SETTINGS, 0.05, run=RunFacts(launch_steps=600)).verdict == "change"
    assert confirmed(monkeypatch, SETTINGS, 0.05, run=RunFacts()).verdict == "change"


def test_planned_steps_count_more_than_the_length_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = some_settings("goodput", steps_planned=600)
    assert confirmed(monkeypatch, planned, 0.05, run=ENDED).verdict == "change"


def test_who_names_what_compiles_decides_about_a_short_program(monkeypatch: pytest.MonkeyPatch) -> None:
    named = frozenset({"execution"})
    assert confirmed(monkeypatch, SETTINGS, 0.05, run=ENDED, named=named).verdict == "change"
    planned = some_settings("goodput", steps_planned=599)
    assert confirmed(monkeypatch, planned, 0.05, run=ENDED, named=named).verdict == "keep"


def test_the_time_of_a_whole_launch_is_told_where_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFacts(launch_steps=1000)
    _, planned = told(confirmed(monkeypatch, SETTINGS, 0.05, run=run), SETTINGS, run)
    assert planned is not None and planned.changed_seconds is not None
    assert planned.steps == 1000 and planned.seconds == pytest.approx(100.0)
    assert planned.changed_seconds.estimate == pytest.approx(80.0)
