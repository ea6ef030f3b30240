"""Every number that a report shows is one of result.json, in its unit and with the digits that it bears."""

import inspect
import json
import math
import re
from collections.abc import Iterable
from statistics import fmean, median
from typing import Any

import pytest
from html_tree import asset, visible
from report_pages import KINDS
from test_report import collect

from advisor.report import files
from advisor.report.effects import FEWEST_TRIALS
from advisor.result.document import ProfileData, ResultData, Trial, Value
from advisor.rules import RULES

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?=x\b)|(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)")
READ = ("empty", "keep", "change", "profile", "empty profile", "200 trials", "real tune", "real profile")
UNITS = (1.0, 100.0, 2.0**-20, 2.0**-10, 1e-6, 1e-9, 1e-12)  # itself, percent, MiB, KiB, and M, G, T
TEMPLATES = (
    "macros",
    "tradeoff",
    "trials",
    "changes",
    "findings",
    "step",
    "machine_limits",
    "left_out",
    "conditions",
)


@pytest.mark.parametrize("kind", READ)
def test_every_number_of_a_report_is_in_its_result(kind: str) -> None:
    result = KINDS[kind]()
    assert strange(files.render_html(result), result) == set()


@pytest.mark.parametrize("kind", ["change", "profile", "200 trials"])
def test_a_number_that_is_not_in_the_result_would_be_noticed(kind: str) -> None:
    result = KINDS[kind]()
    html = files.render_html(result).replace("38.4 ms", "77.77 ms")
    assert strange(html, result) == {"77.77"}


def strange(html: str, result: ResultData | ProfileData) -> set[str]:
    """Numbers in the visible text that neither a value nor a text of the result holds."""
    words, numbers = set[str](), set[float]()
    collect(json.loads(result.to_json()), words, numbers)
    words |= {inspect.getdoc(type(rule)) or "" for rule in RULES.values()}
    words |= {asset(f"{name}.html.j2") for name in TEMPLATES}
    known = {token for text in words for token in re.findall(r"\d+(?:\.\d+)?", text)}
    known |= written(numbers | set(of_steps(result)) | of_trials(result.trials) | counts(result))
    return {token for token in NUMBER.findall(visible(html)) if token not in known}


def written(numbers: Iterable[float]) -> set[str]:
    """Each in every unit, as a share above one, and with up to four decimals."""
    values = {
        abs(shown) for number in numbers for shown in (*(number * unit for unit in UNITS), 100 * (number - 1))
    }
    return {f"{value:.{digits}f}" for value in values for digits in range(5)}


def counts(result: ResultData | ProfileData) -> set[float]:
    """Of rows: trials, findings, knobs left out. And a time in minutes and seconds."""
    rows = max(len(result.trials), len(result.findings), len(result.not_tried), FEWEST_TRIALS)
    minutes = [divmod(round(seconds), 60) for seconds in (result.budget.seconds, result.profile.epoch_s or 0)]
    return {float(count) for count in range(rows + 1)} | {float(part) for each in minutes for part in each}


def of_steps(result: ResultData | ProfileData) -> list[float]:
    """Shares and sums of the parts of a step."""
    found: list[float] = []
    for phases in (result.profile.phases_ms, result.profile.phases_after_ms or {}):
        total = sum(phases.values())
        found += [total, *(part / total for part in phases.values() if total)]
        found += [op.self_ms / total for op in result.profile.operators if total]
    return found


def of_trials(trials: list[Trial]) -> set[float]:
    """Medians by knob and value; from thirty trials on the share of the spread that goes with a knob."""
    groups: dict[str, dict[Value, list[float]]] = {}
    measured = [t for t in trials if t.state == "complete" and t.number and t.against_baseline]
    for trial in measured:
        for knob, value in trial.config.items():
            assert trial.against_baseline is not None
            groups.setdefault(knob, {}).setdefault(value, []).append(trial.against_baseline.estimate)
    shares = {explained(list(values.values())) for values in groups.values() if len(values) > 1}
    return {median(ratios) for values in groups.values() for ratios in values.values()} | shares


def explained(groups: list[list[float]]) -> float:
    """Epsilon squared of the logarithms."""
    logarithms = [[math.log(ratio) for ratio in group] for group in groups]
    every = [value for group in logarithms for value in group]
    whole = sum((value - fmean(every)) ** 2 for value in every)
    inside = sum((value - fmean(group)) ** 2 for group in logarithms for value in group)
    spare = max(1, len(every) - len(groups))
    return max(0.0, (whole - inside - (len(groups) - 1) * inside / spare) / (whole or 1.0))


def test_numbers_of_the_fields_are_those_of_the_result_to_six_digits() -> None:
    result = KINDS["real tune"]()
    _, _, block = files.render_markdown(result).partition("```json\n")
    fields: Any = json.loads(block.partition("\n```")[0])
    data = json.loads(result.to_json())
    assert fields["baseline"]["step_ms"]["estimate"] == pytest.approx(
        data["baseline"]["step_ms"]["estimate"], rel=1e-5
    )
    assert fields["recommendation"]["speedup"]["low"] == pytest.approx(
        data["recommendation"]["speedup"]["low"], rel=1e-5
    )
    assert fields["phases_ms"] == pytest.approx(data["profile"]["phases_ms"], rel=1e-5)
    assert fields["apply"] == "advisor apply demo-report"
    assert fields["trials"] == {"complete": len(data["trials"])}
