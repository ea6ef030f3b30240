"""Strategies compared: which trial speaks for one, its words, losses beside the baseline's, every face."""

import re
from typing import Any

import pytest
import test_report_page as pages
from html_tree import controls, elements, parse, parse_fragment, structure, text_of
from markdown_it import MarkdownIt
from result_builder import HOSTILE, NOW, PLAIN, a_ratio, a_result, a_trial, many_trials
from strategy_builder import (
    ALONE,
    RANKS,
    SENT,
    a_recommended_strategy,
    a_result_of_strategies,
    know_strategies,
    some_strategy_trials,
    under,
)  # fmt: skip
from test_report import explained, strangers

from advisor.report import files
from advisor.report.charts.loss_chart import curve_of, losses_beside, said
from advisor.report.charts.rank_chart import bars_of
from advisor.report.charts.scaling_chart import points_of
from advisor.report.pages.strategies_page import (
    MOST_CURVES,
    StrategiesPart,
    StrategyRow,
    amount,
    lines,
    short,
    strategies,
    strategy_rows,
)  # fmt: skip
from advisor.result.document import RankUse, ResultData, Trial, Untried
from advisor.tuners.strategies import STRATEGIES


@pytest.fixture(autouse=True)
def _strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    know_strategies(monkeypatch)


def part_of(result: ResultData) -> StrategiesPart:
    found = strategies(result)
    assert found is not None
    return found


def rows_of(*trials: Trial, **fields: Any) -> list[StrategyRow]:
    return strategy_rows(a_result_of_strategies(trials=[some_strategy_trials()[0], *trials], **fields))


GOLDEN = """
Strategies against one process (throughput)
  ddp, 2 ranks: 1.08x (1.02 to 1.14), rounding, numbers not checked, 5.10 MiB sent per step and rank
  single, 1 rank: what the others are compared with, exact, numbers of the baseline
  ddp, 4 ranks: 0.82x (0.79 to 0.85), dropped early, rounding, numbers not checked
  fsdp, 2 ranks: failed: ranks waited for each other without end, rounding
  zero, 2 ranks: refused: no Adam to divide, rounding
  local_sgd, 2 ranks: 1.35x (1.28 to 1.42), training, numbers not checked, 0.637 MiB sent per step and rank
  not tried: pipeline: the model is no Sequential
Under local_sgd what is learnt can differ. It was measured because it was named, and is ranked apart; it is \
never recommended unless --allow training is given.
Losses: local_sgd, 2 ranks: 2.31 to 1.93 in 64 steps; baseline: 2.30 to 1.87 in 20 steps.
Scaling: 2 ranks (ddp): 1.30x (1.25 to 1.35), 130 % of ideal (125 % to 135 %); 4 ranks (ddp): 0.82x (0.79 \
to 0.85), 82 % of ideal (79 % to 85 %). All trials share the same 4 CPUs: more ranks get no more cores, each \
gets a smaller part of them. Ideal is therefore the throughput of 1 rank, at any number of ranks; on \
machines with more cores or devices the same strategies may scale otherwise.
"""


def test_the_text_of_every_kind_of_strategy_reads_so() -> None:
    assert "\n".join(lines(a_result_of_strategies())) + "\n" == GOLDEN
    assert GOLDEN in files.render_text(a_result_of_strategies(), 1000)


def test_the_trial_with_the_fewest_other_changes_speaks_for_a_strategy() -> None:
    row = rows_of(*some_strategy_trials()[1:3])[0]
    assert (row.strategy, row.ranks, row.trial, row.settings) == ("ddp", 2, 1, [])


def test_of_like_trials_a_confirmation_speaks_before_a_faster_one_of_the_search() -> None:
    row, _ = rows_of(
        a_trial(1, a_ratio(1.3, 1.25, 1.35), config=under("ddp", 2)),
        a_trial(2, a_ratio(1.1, 1.05, 1.15), config=under("ddp", 2), stage="confirm"),
    )
    assert (row.trial, row.ratio) == (2, "1.10x (1.05 to 1.15)")


def test_other_settings_of_the_only_trial_are_named() -> None:
    row, _ = rows_of(some_strategy_trials()[2])
    assert row.settings == ["num_workers=2"]


def test_a_measured_trial_speaks_before_one_that_failed_or_was_refused() -> None:
    row = rows_of(
        a_trial(1, config=under("ddp", 2), state="failed", cause="killed"),
        a_trial(2, a_ratio(1.1, 1.05, 1.15), config=under("ddp", 2, num_workers=2)),
        a_trial(3, a_ratio(1.0, 0.98, 1.02), config=under("ddp", 2), refused={"strategy": "no"}),
    )[0]
    assert row.trial == 2


def test_under_another_baseline_ratios_to_one_process_are_made_of_both() -> None:
    trials = [
        a_trial(0, config=under("ddp", 2), stage="baseline"),
        a_trial(1, a_ratio(0.8, 0.75, 0.85), config=dict(ALONE)),
        a_trial(2, a_ratio(1.2, 1.15, 1.25), config=under("fsdp", 2)),
    ]
    baseline = a_result_of_strategies().baseline.model_copy(update={"config": under("ddp", 2)})
    rows = strategy_rows(a_result_of_strategies(trials=trials, baseline=baseline))
    told = {row.strategy: row.ratio for row in rows}
    assert told == {
        "fsdp": "1.5x (1.4 to 1.7)", "ddp": "1.25x (1.18 to 1.33)",
        "single": "what the others are compared with",
    }  # fmt: skip


def test_without_one_process_there_is_nothing_to_compare_with() -> None:
    trials = [
        a_trial(0, config=under("ddp", 2), stage="baseline"),
        a_trial(2, a_ratio(1.2, 1.15, 1.25), config=under("fsdp", 2)),
    ]
    baseline = a_result_of_strategies().baseline.model_copy(update={"config": under("ddp", 2)})
    rows = strategy_rows(a_result_of_strategies(trials=trials, baseline=baseline))
    assert {row.ratio for row in rows} == {"one process was not measured"}


def test_an_interval_that_holds_one_is_no_clear_difference() -> None:
    assert rows_of(a_trial(1, a_ratio(1.0, 0.97, 1.03), config=under("ddp", 2)))[1].ratio == (
        "no clear difference (0.97 to 1.03)"
    )


def test_numbers_are_those_that_the_recommendation_compared() -> None:
    rows = rows_of(*some_strategy_trials()[1:], recommendation=a_recommended_strategy())
    assert {(row.strategy, row.ranks): row.numbers for row in rows} == {
        ("ddp", 2): "same numbers within noise", ("single", 1): "numbers of the baseline",
        ("ddp", 4): "numbers not checked", ("fsdp", 2): "", ("zero", 2): "",
        ("local_sgd", 2): "numbers not checked",
    }  # fmt: skip


def test_a_setting_can_make_a_strategy_one_that_only_rounds() -> None:
    rows = rows_of(a_trial(1, a_ratio(1.2, 1.1, 1.3), config=under("local_sgd", 2, every=1)))
    assert [(row.strategy, row.semantics, row.training) for row in rows] == [
        ("local_sgd", "rounding", False), ("single", "exact", False)
    ]  # fmt: skip


def test_a_strategy_of_another_version_has_no_semantics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(STRATEGIES, "ddp")
    row = rows_of(some_strategy_trials()[1])[0]
    assert (row.strategy, row.semantics, row.meaning) == ("ddp", "not known to this version", "")


def test_what_else_a_strategy_reported_is_told() -> None:
    told = {"staleness": {"median": 1, "most": 3}, "parameter_bytes": 3 * 2**20}
    use = RankUse(count=2, report=told)
    row = rows_of(a_trial(1, a_ratio(1.2, 1.1, 1.3), config=under("ddp", 2), ranks=use))[0]
    assert (row.sent, row.told) == ("", 'staleness {"median": 1, "most": 3}, parameter 3.00 MiB')


def test_the_count_that_ran_is_told_before_the_one_that_was_asked_for() -> None:
    use = RankUse(count=3)
    assert rows_of(a_trial(1, a_ratio(1.2, 1.1, 1.3), config=under("ddp", 2), ranks=use))[0].ranks == 3


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, ""), (0, "0 MiB"), (40, "under 0.0001 MiB"), (2**10, "0.0010 MiB"), (SENT, "5.10 MiB"),
        (3 * 2**30, "3072 MiB"),
    ],
)  # fmt: skip
def test_bytes_are_told_in_mib_from_the_smallest_to_the_largest(count: float | None, text: str) -> None:
    assert amount(count) == text


def test_under_a_memory_objective_ratios_are_said_to_be_of_memory() -> None:
    assert part_of(a_result_of_strategies(objective="memory")).measure == "less peak memory"


def test_several_strategies_that_change_learning_are_named_in_one_sentence() -> None:
    fast = a_ratio(1.35, 1.28, 1.42)
    trials = [a_trial(1, fast, config=under("local_sgd", 2)), a_trial(2, fast, config=under("async", 2))]
    part = part_of(a_result_of_strategies(trials=[some_strategy_trials()[0], *trials]))
    assert part.never == (
        "Under local_sgd, async what is learnt can differ. They were measured because they were named, and "
        "are ranked apart; none of them is ever recommended unless --allow training is given."
    )
    assert part.curves == []  # no losses were kept


def test_without_such_strategies_nothing_is_said_of_learning() -> None:
    part = part_of(a_result_of_strategies(trials=some_strategy_trials()[:4]))
    assert (part.never, part.curves, part.curves_note) == ("", [], "")


def test_losses_stand_beside_those_of_the_baseline_on_their_own_steps() -> None:
    (chart,) = part_of(a_result_of_strategies()).curves
    assert chart.columns == ("step", "baseline", "local_sgd, 2 ranks")
    assert list(chart.rows) == [
        ("1", "2.30", "2.31"), ("11", "2.00", ""), ("17", "", "2.20"), ("20", "1.87", ""), ("33", "", "2.10"),
        ("48", "", "not finite"), ("64", "", "1.93"),
    ]  # fmt: skip
    assert str(chart.svg).count('stroke-dasharray="6 4"') == 2  # the line and its legend


def test_losses_of_a_baseline_that_were_kept_with_its_trial_are_taken() -> None:
    first = some_strategy_trials()[0].model_copy(update={"losses": [3.0, 2.9]})
    (chart,) = part_of(a_result_of_strategies(trials=[first, *some_strategy_trials()[1:]])).curves
    assert chart.rows[0] == ("1", "3.00", "2.31")


def test_without_losses_of_the_baseline_only_the_own_line_is_drawn() -> None:
    own = curve_of([2.0, 1.5], 2)
    chart = losses_beside("losses", "async, 2 ranks", [], own)
    assert chart.columns == ("step", "async, 2 ranks") and "6 4" not in str(chart.svg)
    assert said("async, 2 ranks", [], own) == (
        "async, 2 ranks: 2.00 to 1.50 in 2 steps; the baseline's losses were not kept."
    )


@pytest.mark.parametrize("losses", [[], [None], [1.5], [None, None, 0.0], [2.0, 2.0], [-1e9, 1e9]])
def test_any_losses_can_be_drawn(losses: list[float | None]) -> None:
    chart = losses_beside("losses", "async", curve_of(losses, 9), curve_of(losses, 0))
    coordinates = re.findall(r"[ML]([\d.]+) ([\d.-]+)", str(chart.svg))
    assert all(0 <= float(x) <= 350 and 0 <= float(y) <= 226 for x, y in coordinates)


def test_more_curves_than_fit_are_counted() -> None:
    fast = a_ratio(1.35, 1.28, 1.42)
    trials = [
        a_trial(number, fast, config=under("async", number + 1), losses=[2.0, 1.0]) for number in range(1, 10)
    ]
    part = part_of(a_result_of_strategies(trials=[some_strategy_trials()[0], *trials]))
    assert len(part.curves) == MOST_CURVES
    assert part.curves_note.endswith("Drawn are 6 of 9; all are in result.json.")


def test_a_search_without_strategies_has_no_such_part() -> None:
    for result in (a_result(), a_result(trials=many_trials(300))):
        assert strategies(result) is None and lines(result) == []
        assert 'id="strategies"' not in files.render_html(result)
        assert "Strateg" not in files.render_markdown(result)


def test_a_knob_left_out_as_a_whole_stays_among_what_was_not_tried() -> None:
    nothing = Untried(knob="strategy", reason="one process fills this machine")
    assert strategies(a_result(not_tried=[nothing])) is None


def test_strategies_left_out_by_name_are_shown_although_none_was_tried() -> None:
    result = a_result(not_tried=[Untried(knob="strategy", value="ddp", reason="4 does not divide by 3")])
    part = part_of(result)
    assert (part.rows, part.not_tried) == ([], [("ddp", "4 does not divide by 3")])
    shown = files.render_html(result)
    assert "Strategies not tried" in shown and "Strategies compared" not in shown


def test_the_page_shows_table_losses_and_what_was_not_tried() -> None:
    tree = parse(files.render_html(a_result_of_strategies()))
    section = next(s for s in elements(tree, "section") if s.get("aria-labelledby") == "strategies")
    rows = [[text_of(cell) for cell in row] for row in elements(elements(section, "table")[0], "tr")]
    assert rows[0] == [
        "strategy", "ranks", "also changed", "against one process", "semantics", "numbers",
        "sent per step and rank", "also reported", "trial",
    ]  # fmt: skip
    assert rows[1] == [
        "ddp", "2", "nothing", "1.08x (1.02 to 1.14)", "rounding: sums in another order",
        "numbers not checked", "5.10 MiB", "buckets 3", "1",
    ]  # fmt: skip
    shown = text_of(section)
    for text in (
        "6 combinations of strategy and number of ranks tried, 5 of them with several ranks.",
        "never recommended unless --allow training is given",
        "Loss by step: local_sgd, 2 ranks",
        "the model is no Sequential",
    ):
        assert text in shown
    assert "no accelerator" not in shown  # of another knob
    assert "#strategies" in {node.get("href") for node in elements(tree, "a")}


def test_the_digest_holds_the_table_and_what_is_said_of_learning() -> None:
    digest = files.render_markdown(a_result_of_strategies())
    row = "| `ddp` | 2 |  | 1.08x (1.02 to 1.14) | rounding | numbers not checked | 5.10 MiB |"
    assert row in digest.splitlines()
    assert "never recommended unless --allow training" in digest
    assert "2.31 to 1.93 in 64 steps; baseline: 2.30 to 1.87 in 20 steps." in digest
    assert "### Scaling" in digest


def whole(**fields: Any) -> ResultData:
    """Everything that can be shown of ranks, at once."""
    profile = a_result().profile.model_copy(update={"ranks": RANKS})
    return a_result_of_strategies(profile=profile, **fields)


def test_the_page_with_all_of_it_is_as_accessible_as_any() -> None:
    page = files.render_html(whole())
    pages.test_it_is_valid_html_with_the_security_policy_first(page)
    pages.test_nothing_is_requested_from_elsewhere(page)
    pages.test_no_attribute_runs_script(page)
    pages.test_ids_are_unique_and_every_reference_finds_its_own(page)
    pages.test_every_chart_has_a_title_a_description_and_its_numbers_in_a_table(page)
    pages.test_headings_start_at_one_and_skip_no_level(page)
    pages.test_tables_have_captions_and_scoped_heads(page)
    pages.test_controls_that_need_the_script_are_not_in_the_page(page)


def test_every_number_shown_is_in_result_json_or_follows_from_it() -> None:
    result = whole()
    follows = {float(number) for number in range(65)}  # steps, ranks and rows
    bars = bars_of(RANKS)
    for bar in bars:
        follows |= set(bar.parts.values())
    for words in bars[0].parts:
        follows.add(sum(bar.parts[words] for bar in bars) / 20)
    for point in points_of(result):
        ends = [point.ideal, *(getattr(each, end) for each in (point.speedup, point.efficiency)
                               for end in ("low", "estimate", "high"))]  # fmt: skip
        follows |= set(ends)
    html = files.render_html(result)
    strange = {each for each in strangers(html, result) if not explained(each, follows)}
    assert strange == set()
    changed = html.replace("1.08x", "1.77x")
    assert strangers(changed, result) - strangers(html, result) == {"1.77"}


def named(names: list[str]) -> ResultData:
    """A result that carries names wherever a strategy or a rank tells something."""
    parts = [f"{name}{at}" for at, name in enumerate(names)]
    return whole(
        trials=[
            some_strategy_trials()[0],
            *(
                a_trial(
                    at, a_ratio(1.2, 1.1, 1.3), config={**under(part, 2), "amp": part},
                    ranks=RankUse(count=2, bytes_per_step=SENT, report={part: part}),
                    refused={} if at % 2 else {"strategy": part},
                )
                for at, part in enumerate(parts, 1)
            ),
        ],
        not_tried=[Untried(knob="strategy", value=part, reason=part) for part in parts],
    )  # fmt: skip


def test_hostile_names_leave_elements_and_attributes_as_plain_ones_do() -> None:
    hostile, plain = (parse(files.render_html(named(names))) for names in (HOSTILE, PLAIN))
    assert structure(hostile) == structure(plain)
    fragments = (parse_fragment(files.render_fragment(named(names))) for names in (HOSTILE, PLAIN))
    assert structure(next(fragments)) == structure(next(fragments))


def test_hostile_names_leave_every_row_of_the_digest_one_row() -> None:
    def kinds(names: list[str]) -> list[str]:
        found = MarkdownIt("commonmark").enable("table").parse(files.render_markdown(named(names)))
        kept = ("tr_open", "td_open", "heading_open", "html_block")
        return [token.type for token in found if token.type in kept]

    assert kinds(HOSTILE) == kinds(PLAIN)


@pytest.mark.parametrize("width", [20, 80])
def test_the_text_keeps_to_the_width_and_carries_no_control_characters(width: int) -> None:
    text = files.render_text(named(HOSTILE), width)
    assert max(map(len, text.splitlines())) <= width
    assert controls(text) == set()


def test_a_full_table_of_strategies_beside_a_thousand_ranks_stays_within_the_budget() -> None:
    kinds = ("single", "ddp", "fsdp", "local_sgd", "async")
    trials = [
        trial.model_copy(
            update={"config": {**NOW, **trial.config, **under(kinds[at % 5], 2 ** (at % 9)), "amp": "off"}}
        )
        for at, trial in enumerate(many_trials(2000))
    ]
    many = [{"rank": at, "step_ms": 10.0, "compute_ms": 5.0, "exposed_ms": 5.0} for at in range(1024)]
    profile = a_result().profile.model_copy(update={"ranks": many})
    html = files.render_html(a_result_of_strategies(trials=trials, profile=profile))
    assert len(html.encode()) <= 1_500_000


def test_one_row_in_short() -> None:
    ratio, batch = "1.10x (1.05 to 1.15)", "8 samples x 2 ranks = 16"
    row = StrategyRow("ddp", 2, [], ratio, "rounding", "", "", "", "", batch, False, 3)
    assert short(row) == f"ddp, 2 ranks: {ratio}, rounding, batch {batch}"
