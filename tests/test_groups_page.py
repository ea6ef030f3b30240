"""Groups of workers in every form of the report."""

from result_builder import a_ratio, a_result, a_trial

from advisor.groups_page import group_rows
from advisor.report import render_html, render_markdown, render_text
from advisor.result import Group, ResultData


def with_groups() -> ResultData:
    result = a_result()
    best = a_trial(3, a_ratio(1.5, 1.4, 1.6), config={**result.baseline.config, "num_workers": 7})
    result.groups = [
        Group(
            fingerprint="aaaaaaaaaaaaaaaa",
            machine="fast",
            baseline=result.baseline,
            trials=9,
            failed=2,
            best=best,
        ),
        Group(fingerprint="bbbbbbbbbbbbbbbb", machine="<script>alert(1)</script>", trials=1),
    ]
    return result


def test_each_group_has_its_own_baseline_and_best_trial() -> None:
    first, second = group_rows(with_groups())
    assert first.settings == "num_workers=7" and first.best.startswith("1.50")
    assert (first.trials, first.failed) == ("9", "2")
    assert (second.baseline, second.best, second.settings) == ("not known", "none above it", "")


def test_groups_stand_side_by_side_in_every_form_and_names_are_escaped() -> None:
    result = with_groups()
    page = render_html(result)
    assert '<h2 id="groups">Groups of workers</h2>' in page and "<script>alert(1)" not in page
    assert "Group aaaaaaaaaaaa (fast)" in render_text(result, 300)
    assert "### Groups of workers" in render_markdown(result)


def test_a_study_of_one_tuner_shows_no_groups() -> None:
    assert "Groups of workers" not in render_html(a_result())
