"""What rules and verdicts say, over all rules and states: the words asked for, and the same as last time.

``make wording`` writes ``tests/real/wording.txt`` anew after the words were changed on purpose; its
difference is then what a reader would see.
"""

import importlib.util
import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import pytest
from result_builder import a_keep, a_ratio, a_recommendation, a_result, a_trial

from advisor.advice.finding import Finding, State
from advisor.report.pages.findings_page import finding_row, rule_page
from advisor.result import wording
from advisor.result.attribution import advised
from advisor.result.document import Recommendation, ResultData
from advisor.result.words import CAUSES, STOPPED
from advisor.rules import RULES
from advisor.stages.diagnosing.result_findings import as_data
from advisor.tuners.supervision.failures import Cause

HERE = Path(__file__).parents[1]
GOLDEN = HERE / "real" / "wording.txt"
NOT_SAID = re.compile(
    r"!(?![=\w(])|\boptimal|\bbest practice|\bperfect|\bgreat\b|\bexcellent|\bunfortunately|\bshould have"
    r"|\byour code\b|\bis slow\b|\bbad\b|\bwrong\b|\bpoor\b|\bsimply\b|\bjust\b",
    re.IGNORECASE,
)
NUMBER_FIRST = re.compile(r"[\d,.]+(?:x| %| times| of \d| [A-Za-z])")
EXPONENT = re.compile(r"\d(?:\.\d+)?e[+-]?\d")
TIGHT = re.compile(r"\d%|\d(?:ms|MiB|GiB|samples)\b")


@cache
def said() -> dict[tuple[str, str], Finding]:
    """The first finding of each rule in each state, from the profiles of the rules' own tests."""
    found: dict[tuple[str, str], Finding] = {}
    with Recorded(found):
        for path in sorted((HERE / "rules").glob("test_*.py")):
            for run in runs_of(path):
                run()
    return dict(sorted(found.items()))


class Recorded:
    """Every rule notes what it finds while this is entered."""

    def __init__(self, found: dict[tuple[str, str], Finding]) -> None:
        self.patches = [
            patch.object(type(rule), "check", self._noting(rule, found)) for rule in RULES.values()
        ]

    def __enter__(self) -> None:
        for each in self.patches:
            each.start()

    def __exit__(self, *error: object) -> None:
        for each in self.patches:
            each.stop()

    @staticmethod
    def _noting(rule: Any, found: dict[tuple[str, str], Finding]) -> Any:
        check = type(rule).check

        def noting(self: Any, profile: Any) -> Any:
            finding = check(self, profile)
            found.setdefault((rule.id, finding.state.value), finding)
            return finding

        return noting


def runs_of(path: Path) -> Iterator[Any]:
    """The tests of a file that need nothing, and those of one parameter with each of its values."""
    spec = importlib.util.spec_from_file_location(f"wording_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, test in list(vars(module).items()):
        if not name.startswith("test_") or not inspect.isfunction(test):
            continue
        parameters = list(inspect.signature(test).parameters)
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        if not parameters:
            yield test
        elif len(marks) == 1 and parameters == [marks[0].args[0]]:
            for value in marks[0].args[1]:
                if isinstance(value, str | int | float):
                    yield lambda test=test, value=value: test(value)


def lines() -> list[str]:
    """The golden text: what each rule says in each state, then each verdict and each cause."""
    told = []
    for (rule, state), finding in said().items():
        row = finding_row(as_data([finding])[0])
        told.append(f"{rule} [{state}] {row.title}")
        told += [f"    gain: {row.gain}"] if row.gain else []
        told += [f"    advice: {row.advice}"] if row.advice else []
        if finding.fired and finding.knobs:
            told.append(f"    about: {', '.join(advised(finding.advice, finding.knobs)) or 'no knob'}")
    told += [f"verdict [{name}] {wording.verdict(result)}" for name, result in verdicts().items()]
    told += [f"cause [{cause}] {words}" for cause, words in sorted(CAUSES.items())]
    told += [f"stopped [{name}] {words}" for name, words in sorted(STOPPED.items())]
    return told


def verdicts() -> dict[str, ResultData]:
    """A result for each verdict, gain, memory and state of the numbers."""
    found: dict[str, ResultData] = {"keep": a_keep()}
    numerics = get_args(Recommendation.model_fields["numerics"].annotation)
    for gain, numbers in product((1.42, 0.8, 1.0), numerics):
        ratio = a_ratio(gain, gain - 0.04, gain + 0.04)
        found[f"{gain} {numbers}"] = a_result(
            recommendation=a_recommendation(speedup=ratio, numerics=numbers)
        )
    for objective in ("memory", "latency", "energy", "goodput"):
        found[objective] = a_result(objective=objective)
    rounded = {
        "numerics": "identical",
        "numerics_reason": "losses of the first 20 steps differ by 3e-08 relative",
    }
    found["identical up to rounding"] = a_result(recommendation=a_recommendation(**rounded))
    found["memory not compared"] = a_result(recommendation=a_recommendation(memory_ratio=None))
    return found


def test_every_rule_was_heard_when_it_fires_and_when_it_does_not() -> None:
    fired = {rule for rule, state in said() if state in (State.OPPORTUNITY, State.DIAGNOSTIC)}
    silent = {rule for rule, state in said() if state in (State.PASSED, State.NOT_APPLICABLE)}
    assert fired == silent == RULES.keys()


def test_the_words_are_those_of_last_time() -> None:
    assert lines() == GOLDEN.read_text(encoding="utf-8").splitlines(), "see the first lines of this file"


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_neither_praises_nor_blames_and_writes_numbers_as_everywhere(rule: str) -> None:
    for finding in [finding for (name, _), finding in said().items() if name == rule]:
        for text in (finding.title, finding.advice):
            assert not NOT_SAID.search(text), text
            assert not EXPONENT.search(text) and not TIGHT.search(text), text
    assert not re.search(r"\bbest practice|\boptimal\b", rule_page(rule), re.IGNORECASE)


@pytest.mark.parametrize("rule", RULES)
def test_what_fires_opens_with_its_number_and_says_what_to_do(rule: str) -> None:
    fired = [
        f for (name, state), f in said().items() if name == rule and state in ("opportunity", "diagnostic")
    ]
    for finding in fired:
        assert NUMBER_FIRST.match(finding.title), finding.title
        assert finding.advice
        data = as_data([finding])[0]
        gain = finding_row(data).gain
        if data.ceiling and data.ceiling.source == "model":
            assert "model, not measured" in gain
        assert "measured" in gain or not gain


@pytest.mark.parametrize("name", verdicts())
def test_a_verdict_holds_an_interval_and_no_praise(name: str) -> None:
    text = wording.verdict(verdicts()[name])
    assert not NOT_SAID.search(text)
    assert re.search(r"\([\d.]+ to [\d.]+", text) or "could have been seen is" in text
    assert text.endswith(".") and "nan" not in text


def test_a_failed_trial_of_every_cause_is_told_in_words() -> None:
    for cause in get_args(Cause):
        words = wording.cause(a_trial(1, state="failed", cause=cause))
        assert words and not NOT_SAID.search(words.replace("went wrong", ""))


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(lines()) + "\n", encoding="utf-8")
