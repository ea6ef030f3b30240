"""Results of a machine so busy that noise alone gives ratios of millions: no face tells such figures."""

import re
from collections.abc import Callable

import pytest
from check_builder import a_check
from html_tree import parse_fragment, text_of, visible
from result_builder import a_keep, a_ratio, a_result, a_trial, an_interval, some_trials

from advisor.report import files
from advisor.report.charts.charts import progress
from advisor.report.next_step import next_step
from advisor.report.pages import check_page, compare_page
from advisor.result import wording
from advisor.result.check import Checked
from advisor.result.compare import Given, compare
from advisor.result.document import Interval, Noise, Rate, Ratio, ResultData

HUGE = 22_025.46579
HIGH = 1_365_511_216.2
NOTHING = a_ratio(1.13, 1 / HIGH, HIGH, 6, 6)
FACES: dict[str, Callable[[ResultData], str]] = {
    "text": lambda result: files.render_text(result, 400),
    "markdown": lambda result: files.render_markdown(result).split("Fields</summary>")[0],
    "html": lambda result: visible(files.render_html(result)),
    "notebook": lambda result: text_of(parse_fragment(unstyled(files.render_fragment(result)))),
}


def unstyled(html: str) -> str:
    return re.sub(r"<style>.*?</style>", "", html, flags=re.S)


def a_drowned_result(**fields: object) -> ResultData:
    """What ``tune`` finds where other load leaves slots that disagree."""
    trials = [
        trial if trial.against_baseline is None else trial.model_copy(update={"against_baseline": NOTHING})
        for trial in some_trials()
    ]
    drowned = a_keep(
        trials=trials,
        noise=Noise(aa_ratio=NOTHING, smallest_detectable=HUGE, contended=True),
        baseline=a_keep().baseline.model_copy(
            update={
                "step_ms": Interval(estimate=38.4, low=0.0, high=HIGH),
                "throughput": Rate(estimate=1667, low=0.0, high=HIGH),
            }
        ),
    )
    found = drowned.recommendation.model_copy(update={"speedup": NOTHING})
    return drowned.model_copy(update={"recommendation": found, **fields})


@pytest.mark.parametrize("face", FACES)
def test_no_face_tells_a_figure_that_noise_made(face: str) -> None:
    told = " ".join(FACES[face](a_drowned_result()).split())
    assert not re.search(r"\d{8}|\b0\.000\b", told)
    assert "22025" not in told and "22026" not in told
    assert "machine was too busy to tell any difference" in told


@pytest.mark.parametrize("face", ["text", "html"])
def test_an_interval_of_millions_is_not_determined_and_stays_in_the_json(face: str) -> None:
    result = a_drowned_result()
    assert "38.4 ms (interval not determined: too few comparable slots)" in FACES[face](result)
    assert ResultData.model_validate_json(result.to_json()).noise.aa_ratio.high == HIGH


@pytest.mark.parametrize(
    ("share", "busy", "said"),
    [
        (0.018, True, "differences from 1.8 % up could be seen"),
        (1.0, True, "differences from 100 % up could be seen"),
        (1.5, True, "the machine was too busy to see any difference below a factor of 2.5"),
        (1.5, False, "the measurements varied too much to see any difference below a factor of 2.5"),
        (98.9, False, "the measurements varied too much to see any difference below a factor of 100"),
        (HUGE, False, "the measurements varied too much to tell any difference"),
    ],
)
def test_what_could_be_seen_is_a_share_a_factor_or_nothing(share: float, busy: bool, said: str) -> None:
    noise = Noise(aa_ratio=a_ratio(1, 0.9, 1.1), smallest_detectable=share, contended=busy)
    assert wording.visible(noise) == said


def test_keep_on_a_busy_machine_does_not_sound_as_if_all_was_looked_at() -> None:
    result = a_drowned_result()
    assert wording.verdict(result) == (
        "Keep what you have: no change was confirmed. The machine was too busy to tell any difference."
    )
    assert next_step(result).startswith("Run it again while less else runs")


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (a_ratio(1.1, 0.11, 10.9), "no clear difference (0.1 to 10.9)"),
        (a_ratio(1.1, 0.1, 11.0), "not determined: too few comparable slots"),
        (a_ratio(40.0, 1.5, 900.0), "at least 1.50x"),
        (a_ratio(0.02, 0.001, 0.5), "at most 0.500x"),
    ],
)
def test_an_end_is_told_where_it_tells_something(ratio: Ratio, said: str) -> None:
    assert wording.short_ratio(ratio) == said


def test_one_absurd_interval_does_not_flatten_the_others() -> None:
    trials = [a_trial(1, a_ratio(1.0, 0.98, 1.02)), a_trial(2, a_ratio(1.3, 1.25, 1.35)), a_trial(3, NOTHING)]
    drawn = str(progress("p", trials, HUGE).svg)
    first, second, _ = (float(y) for y in re.findall(r'<circle[^>]* cy="([\d.-]+)"', drawn))
    assert first - second > 10
    assert all(0 <= float(y) <= 300 for y in re.findall(r"V([\d.-]+)", drawn))


def test_the_table_beside_a_chart_says_which_ends_are_not_known() -> None:
    rows = progress("p", [a_trial(1, NOTHING)], 0.02).rows
    assert rows == [("1", "screen", "1.13", "not determined", "not determined", "")]


def test_a_check_that_could_see_nothing_says_so() -> None:
    blind = Checked(
        then=an_interval(38.4), now=Interval(estimate=39.0, low=0.0, high=HIGH), ratio=NOTHING,
        verdict="unchanged", smallest_regression=HUGE,
    )  # fmt: skip
    result = a_check(step_ms=blind)
    for text in (check_page.render_text(result, 400), check_page.render_markdown(result)):
        assert not re.search(r"\d{6}", text)
        assert "could have been seen: none in the time of a step, 2.4 % of peak memory" in text
    assert "run it again while less else runs on this machine" in check_page.render_text(result, 400)


def test_two_results_that_cannot_tell_are_not_determined() -> None:
    wide = Interval(estimate=38.4, low=0.2, high=HIGH)
    a, b = (
        a_result(created=made, baseline=a_result().baseline.model_copy(update={"step_ms": wide}))
        for made in ("2026-11-20", "2026-11-21")
    )
    said = compare_page.sentence(compare(Given("a", a), Given("b", b)))
    assert said == "Time of a step: not determined: too few comparable slots."
