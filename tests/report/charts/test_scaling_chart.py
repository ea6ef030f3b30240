"""Throughput and efficiency by number of ranks: which trials count, what is ideal, and what is said of it."""

from xml.etree.ElementTree import Element, fromstring

import pytest
from html_tree import elements, parse, text_of
from result_builder import a_rate, a_ratio, a_result, a_trial
from strategy_builder import (
    ALONE,
    a_result_of_strategies,
    know_strategies,
    on_gpus,
    some_strategy_trials,
    under,
)  # fmt: skip

from advisor.report import files
from advisor.report.charts.charts import Chart
from advisor.report.charts.plane import BOTTOM, HEIGHT, TOP, WIDTH, Plane
from advisor.report.charts.scaling_chart import Scaling, points_of, scaling
from advisor.result.document import ResultData, Trial

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    know_strategies(monkeypatch)


def drawing(chart: Chart) -> Element:
    return fromstring(str(chart.svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def found_in(result: ResultData) -> Scaling:
    found = scaling(result)
    assert found is not None
    return found


def searched(*trials: Trial) -> ResultData:
    """A search of the baseline and these trials."""
    return a_result_of_strategies(trials=[some_strategy_trials()[0], *trials])


def test_each_number_of_ranks_shows_the_trial_with_the_highest_lower_end() -> None:
    wide = a_trial(
        7, a_ratio(1.4, 1.0, 1.8), config=under("ddp", 2, num_workers=1), throughput=a_rate(2333.0, 0.3)
    )
    points = points_of(a_result_of_strategies(trials=[*some_strategy_trials(), wide]))
    assert [(point.ranks, point.trial.number) for point in points] == [(1, 0), (2, 2), (4, 3)]


def test_a_complete_trial_stands_before_a_faster_one_that_was_dropped() -> None:
    dropped = a_trial(8, a_ratio(1.9, 1.8, 2.0), config=under("ddp", 2), state="pruned")
    points = points_of(a_result_of_strategies(trials=[*some_strategy_trials(), dropped]))
    assert [point.trial.number for point in points] == [0, 2, 3]


def test_only_trials_that_do_the_same_work_count() -> None:
    fast = a_ratio(3.0, 2.9, 3.1)
    in_steps = a_rate(9000.0).model_copy(update={"unit": "steps/s"})
    others = [
        a_trial(1, fast, config=under("local_sgd", 2)),
        a_trial(2, fast, config=under("ddp", 2, batch_size=512)),
        a_trial(3, fast, config=under("ddp", 2), state="failed", cause="numerics_mismatch"),
        a_trial(4, fast, config=under("ddp", 2), refused={"strategy": "no parameters"}),
        a_trial(5, fast, config=under("ddp", 2), throughput=None),
        a_trial(6, fast, config=under("ddp", 2), throughput=in_steps),
        a_trial(7, fast, config=under("data_parallel", 1)),
    ]
    assert [point.ranks for point in points_of(searched(*others))] == [1]
    assert scaling(searched(*others)) is None
    counted = a_trial(8, fast, config=under("local_sgd", 2, every=1))
    assert [point.ranks for point in points_of(searched(*others, counted))] == [1, 2]


def test_one_number_of_ranks_is_no_scaling() -> None:
    assert scaling(a_result()) is None
    assert scaling(a_result(trials=[])) is None
    assert scaling(searched()) is None


def test_on_shared_cores_the_ideal_is_the_throughput_of_one_process() -> None:
    found = found_in(a_result_of_strategies())
    assert found.said == [
        "2 ranks (ddp): 1.30x (1.25 to 1.35), 130 % of ideal (125 % to 135 %)",
        "4 ranks (ddp): 0.82x (0.79 to 0.85), 82 % of ideal (79 % to 85 %)",
    ]
    assert found.meaning == (
        "All trials share the same 4 CPUs: more ranks get no more cores, each gets a smaller part of them. "
        "Ideal is therefore the throughput of 1 rank, at any number of ranks; on machines with more cores or "
        "devices the same strategies may scale otherwise."
    )
    assert [row[5] for row in found.throughput.rows] == ["1667", "1667", "1667"]


def test_on_gpus_the_ideal_grows_with_the_number_of_ranks() -> None:
    found = found_in(a_result_of_strategies(machine=on_gpus(4)))
    assert found.said == [
        "2 ranks (ddp): 1.30x (1.25 to 1.35), 65 % of ideal (62 % to 68 %)",
        "4 ranks (ddp): 0.82x (0.79 to 0.85), 20 % of ideal (20 % to 21 %)",
    ]
    assert found.meaning.startswith(
        "Each rank has a GPU of its own. Ideal grows in proportion to the number of ranks, from 1 rank."
    )
    assert [row[5] for row in found.throughput.rows] == ["1667", "3333", "6667"]


@pytest.mark.parametrize("command", [["tune", "t.py", "--device", "cpu"], ["tune", "t.py", "--device=cpu"]])
def test_a_search_on_the_cpu_of_a_machine_with_gpus_shares_cores(command: list[str]) -> None:
    found = found_in(a_result_of_strategies(machine=on_gpus(4), command=command))
    assert found.meaning.startswith("All trials share the same 4 CPUs")
    own = ["tune", "t.py", "--", "--device", "cpu"]  # an argument of the program
    assert "GPU" in found_in(a_result_of_strategies(machine=on_gpus(4), command=own)).meaning


def test_without_one_process_the_smallest_number_of_ranks_is_the_measure() -> None:
    trials = [
        a_trial(1, a_ratio(1.0, 0.98, 1.02), config=under("ddp", 2)),
        a_trial(2, a_ratio(1.5, 1.45, 1.55), config=under("ddp", 4)),
    ]
    points = points_of(a_result_of_strategies(trials=trials, machine=on_gpus(4)))
    assert [point.efficiency.estimate for point in points] == [1.0, pytest.approx(0.75)]
    found = found_in(a_result_of_strategies(trials=trials, machine=on_gpus(4)))
    assert "from 2 ranks" in found.meaning
    assert found.efficiency.columns[-1] == "throughput over 2 ranks"


def test_an_interval_that_holds_one_is_no_clear_difference() -> None:
    trial = a_trial(1, a_ratio(1.01, 0.99, 1.03), config=under("ddp", 2))
    assert found_in(searched(trial)).said[0].startswith("2 ranks (ddp): no clear difference (0.97 to 1.05)")


def test_the_note_says_how_trials_were_chosen_and_where_they_differ() -> None:
    note = found_in(a_result_of_strategies()).note
    assert "The trials were not interleaved with each other" in note
    assert "The trials differ in other settings too" in note and "dropped early" in note
    plain = found_in(searched(a_trial(1, a_ratio(1.08, 1.02, 1.14), config=under("ddp", 2)))).note
    assert "other settings" not in plain and "dropped early" not in plain


def test_the_tables_hold_the_numbers_of_every_point() -> None:
    found = found_in(a_result_of_strategies())
    assert found.throughput.columns == (
        "ranks", "strategy", "estimate (samples/s)", "low", "high", "ideal", "trial"
    )  # fmt: skip
    assert list(found.throughput.rows) == [
        ("1", "single", "1667", "1633", "1700", "1667", "0"),
        ("2", "ddp", "2167", "2123", "2210", "1667", "2"),
        ("4", "ddp", "1367", "1339", "1394", "1667", "3"),
    ]
    assert list(found.efficiency.rows) == [
        ("1", "100 %", "", "", "1x"),
        ("2", "130 %", "125 %", "135 %", "1.30x"),
        ("4", "82 %", "79 %", "85 %", "0.82x"),
    ]


def test_both_drawings_begin_at_zero_and_show_the_ideal_dashed() -> None:
    found = found_in(a_result_of_strategies(machine=on_gpus(4)))
    for chart in (found.throughput, found.efficiency):
        whole = drawing(chart)
        (ideal,) = [node for node in whole if node.get("stroke-dasharray") == "6 4"]
        assert ideal.get("d", "").count("L") == 2
        texts = ["".join(node.itertext()) for node in whole if node.tag == f"{SVG}text"]
        assert {"0", "1", "2", "4", "ranks"} <= set(texts)
        assert len([node for node in whole if node.tag == f"{SVG}circle"]) == 3
    rising = [float(part.split(" ")[1]) for part in ideal_of(found.throughput).removeprefix("M").split("L")]
    assert rising[0] > rising[1] > rising[2]


def ideal_of(chart: Chart) -> str:
    (line,) = [node.get("d", "") for node in drawing(chart) if node.get("stroke-dasharray") == "6 4"]
    return line


def test_points_stand_at_their_values() -> None:
    plane = Plane.over(0, 2, [0.0, 130.0])
    assert (plane.low, plane.high) == (0.0, 150.0)
    assert (plane.y(0.0), plane.y(150.0)) == (BOTTOM, TOP)
    assert plane.y(75.0) == pytest.approx((BOTTOM + TOP) / 2)
    assert plane.x(0) < plane.x(1) < plane.x(2) <= WIDTH
    assert Plane.over(1, 1, [5.0]).x(1) == pytest.approx(198.0)
    assert BOTTOM < HEIGHT


def test_names_of_places_do_not_overlap() -> None:
    plane = Plane.over(0, 10, [0.0, 1.0])
    parts = plane.axes([(float(at), str(2**at)) for at in range(11)], "ranks", "samples/s")
    names = [text_of(fromstring(str(part))) for part in parts if str(part).startswith("<text")]
    assert {"1", "4"} <= set(names) and "2" not in names


def test_a_line_is_interrupted_where_a_value_is_missing() -> None:
    plane = Plane.over(0, 3, [0.0, 1.0])
    path = fromstring(str(plane.line([(0, 0.5), (1, None), (2, 0.5), (3, 1.0)], "red"))).get("d", "")
    assert (path.count("M"), path.count("L"), path.count("h0")) == (2, 1, 1)
    assert path.index("h0") < path.index("L")


def test_the_page_shows_both_charts_and_the_digest_the_sentences() -> None:
    result = a_result_of_strategies()
    tree = parse(files.render_html(result))
    section = next(s for s in elements(tree, "section") if s.get("aria-labelledby") == "strategies")
    captions = [text_of(each) for each in elements(section, "figcaption")]
    assert captions[-2:] == [
        "Throughput by number of ranks, larger is better", "Efficiency: throughput over ideal"
    ]  # fmt: skip
    digest, text = files.render_markdown(result), files.render_text(result, 500)
    for sentence in found_in(result).said:
        assert sentence in text_of(section) and f"- {sentence}" in digest and sentence in text
    assert "All trials share the same 4 CPUs" in digest and "All trials share the same 4 CPUs" in text


def test_without_several_ranks_no_face_speaks_of_scaling() -> None:
    result = a_result_of_strategies(trials=[a_trial(0, config=dict(ALONE), stage="baseline")])
    assert "ideal" not in files.render_html(result)
    assert "Scaling" not in files.render_markdown(result) + files.render_text(result, 80)
