"""The time of one step on each rank: parts that fill the step, a drawing, a table and words."""

from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from html_tree import elements, parse, text_of
from result_builder import HOSTILE, PLAIN, a_profile_result, a_result
from strategy_builder import RANKS

from advisor.report import files
from advisor.report.charts.rank_chart import (
    LEFT,
    MOST_BARS,
    MOST_LINES,
    MOST_ROWS,
    RIGHT,
    WIDTH,
    RankPicture,
    bars_of,
    lines,
    rank_picture,
    sentence,
)  # fmt: skip
from advisor.report.profile_text import render_profile
from advisor.result.document import ProfileData, ResultData

SVG = "{http://www.w3.org/2000/svg}"
SAID = (
    "Mean of 2 ranks: 58 % of a step is compute, 12 % input wait, 10 % overlapped communication, 7.5 % "
    "waiting for others, 7.5 % idle, 5.0 % exposed communication. Rank 0 waits longest for others, 1.50 ms; "
    "rank 1 least, 0 ms."
)


def picture(ranks: list[dict[str, Any]]) -> RankPicture:
    found = rank_picture("ranks", ranks)
    assert found is not None
    return found


def rectangles(found: RankPicture) -> list[Element]:
    whole = fromstring(str(found.chart.svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
    return [node for node in whole if node.tag == f"{SVG}rect"]


def many(count: int) -> list[dict[str, Any]]:
    """Ranks of which the later ones wait less."""
    return [
        {"rank": at, "step_ms": 10.0, "compute_ms": 5.0, "exposed_ms": 5.0, "wait_ms": 4.0 - 0.001 * at}
        for at in range(count)
    ]


def test_the_parts_of_a_rank_fill_its_step_without_counting_any_time_twice() -> None:
    first, second = bars_of(RANKS)
    assert first.parts == pytest.approx(
        {
            "compute": 5.0, "overlapped communication": 1.0, "exposed communication": 0.5,
            "waiting for others": 1.5, "input wait": 0.5, "idle": 1.5,
        }
    )  # fmt: skip
    assert sum(first.parts.values()) == pytest.approx(10.0)
    assert sum(second.parts.values()) == pytest.approx(10.0)


def test_loading_with_operators_of_the_host_is_no_compute() -> None:
    parts = bars_of(RANKS)[1].parts
    assert [parts["compute"], parts["input wait"]] == pytest.approx([6.6, 1.9])


def test_loading_under_kernels_of_a_device_hides_behind_them() -> None:
    parts = bars_of([RANKS[1] | {"backend": "nccl", "device_tensors": True}])[0].parts
    assert [parts["compute"], parts["input wait"]] == pytest.approx([7.0, 1.5])


def test_without_computing_told_apart_the_phases_of_the_process_are_shown() -> None:
    (bar,) = bars_of([{"rank": 3, "step_ms": 9.0, "forward": 3.0, "backward": 4.0, "communication": 1.0}])
    shown = {words: ms for words, ms in bar.parts.items() if ms}
    assert shown == {"forward": 3.0, "backward": 4.0, "communication": 1.0, "other": pytest.approx(1.0)}


def test_bars_begin_at_zero_and_are_drawn_to_one_scale() -> None:
    rects = rectangles(picture(RANKS))
    scale = (WIDTH - LEFT - RIGHT) / 10
    tops = sorted({float(node.get("y", "")) for node in rects})
    assert len(tops) == 2
    for top, widths in zip(tops, ([5, 1, 0.5, 1.5, 0.5, 1.5], [6.6, 1, 0.5, 1.9]), strict=True):
        row = [node for node in rects if float(node.get("y", "")) == top]
        assert float(row[0].get("x", "")) == LEFT
        found = [float(node.get("width", "")) for node in row]
        assert found == pytest.approx([ms * scale - 1 for ms in widths], abs=0.1)


def test_parts_are_told_apart_without_colour_and_named_for_readers() -> None:
    row = rectangles(picture(RANKS[:1]))
    assert len({node.get("fill") for node in row}) == len(row) == 6
    assert all("rank 0, " in "".join(node.itertext()) for node in row)


def test_the_sentence_gives_shares_of_the_mean_step_and_who_waits() -> None:
    assert sentence(bars_of(RANKS)) == SAID
    assert picture(RANKS).said == SAID
    assert SAID in "".join(fromstring(str(picture(RANKS).chart.svg))[1].itertext())


def test_one_rank_is_named_and_waits_for_nobody() -> None:
    said = sentence(bars_of(RANKS[:1]))
    assert said.startswith("Rank 0: 50 % of a step is compute, ") and "longest" not in said


def test_the_table_holds_the_numbers_of_every_rank() -> None:
    chart = picture(RANKS).chart
    assert chart.columns == (
        "rank", "step (ms)", "compute (ms)", "overlapped communication (ms)", "exposed communication (ms)",
        "waiting for others (ms)", "input wait (ms)", "idle (ms)", "exchanged (MiB)",
    )  # fmt: skip
    assert list(chart.rows) == [
        ("0", "10.0", "5.00", "1.00", "0.500", "1.50", "0.500", "1.50", "1.00"),
        ("1", "10.0", "6.60", "1.00", "0.500", "0", "1.90", "0", "1.00"),
    ]


def test_memory_is_a_column_where_a_rank_knows_it() -> None:
    chart = picture(
        [{"rank": 0, "step_ms": 2.0, "memory_bytes": 3 * 2**20}, {"rank": 1, "step_ms": 2.0}]
    ).chart
    assert chart.columns == ("rank", "step (ms)", "peak memory (MiB)")
    assert [row[-1] for row in chart.rows] == ["3.00", "not measured"]


def test_a_column_that_no_rank_has_is_left_out() -> None:
    chart = picture([{"rank": 0, "step_ms": 2.0, "compute_ms": 2.0}]).chart
    assert chart.columns == ("rank", "step (ms)", "compute (ms)")


def test_of_many_ranks_those_are_drawn_that_wait_least_and_that_is_said() -> None:
    found = picture(many(1024))
    assert len(found.chart.rows) == MOST_ROWS
    drawn = {"".join(node.itertext()).partition(",")[0] for node in rectangles(found)}
    assert drawn == {f"rank {at}" for at in range(1024 - MOST_BARS, 1024)}
    assert "Drawn are the 32 of 1024 ranks that take longest without such waits." in found.note
    assert "The table has the first 256; all of them are in result.json." in found.note
    assert len(str(found.chart.svg)) < 60_000


@pytest.mark.parametrize(
    "ranks",
    [
        [{}],
        [{"rank": None, "step_ms": None}],
        [{"rank": 0, "step_ms": "x", "compute_ms": float("nan"), "exposed_ms": -3.0}],
        [{"rank": 0, "step_ms": 1.0, "compute_ms": 5.0, "wait_ms": 9.0, "communication_ms": 9.0}],
        [{"rank": 0, "step_ms": float("inf"), "compute_ms": True}],
    ],
)
def test_figures_that_cannot_be_do_no_harm(ranks: list[dict[str, Any]]) -> None:
    for node in rectangles(picture(ranks)):
        assert 0 <= float(node.get("x", "")) <= WIDTH and float(node.get("width", "")) <= WIDTH
    assert lines(ranks)


def test_without_ranks_there_is_no_picture_no_section_and_no_line() -> None:
    assert rank_picture("ranks", []) is None and lines([]) == []
    for result in (a_result(), a_profile_result()):
        assert 'id="ranks"' not in files.render_html(result)
        assert "Ranks" not in files.render_markdown(result)


GOLDEN = [
    SAID,
    "  rank 0: 10.0 ms: compute 5.00 ms, overlapped communication 1.00 ms, exposed communication 0.500 ms, "
    "waiting for others 1.50 ms, input wait 0.500 ms, idle 1.50 ms",
    "  rank 1: 10.0 ms: compute 6.60 ms, overlapped communication 1.00 ms, exposed communication 0.500 ms, "
    "input wait 1.90 ms",
]


def test_the_text_for_a_terminal_reads_so() -> None:
    assert lines(RANKS) == GOLDEN
    assert lines(many(20))[-1] == "  12 more ranks are in result.json"


def with_ranks(ranks: list[dict[str, Any]]) -> tuple[ResultData, ProfileData]:
    """The report of a search and that of a profile of these ranks."""
    tuned, profiled = a_result(), a_profile_result()
    return (
        a_result(profile=tuned.profile.model_copy(update={"ranks": ranks})),
        a_profile_result(profile=profiled.profile.model_copy(update={"ranks": ranks})),
    )


def test_every_face_of_a_search_and_of_a_profile_tells_of_ranks() -> None:
    tuned, profiled = with_ranks(RANKS)
    for result in (tuned, profiled):
        tree = parse(files.render_html(result))
        section = next(s for s in elements(tree, "section") if s.get("aria-labelledby") == "ranks")
        assert SAID in text_of(section) and "Exposed communication: nothing is computed" in text_of(section)
        assert "exposed communication5.0 %" in text_of(section)
        assert "#ranks" in {node.get("href") for node in elements(tree, "a")}
        digest = files.render_markdown(result)
        assert "### Ranks\n" in digest and SAID in digest
        assert "| 1 | 10.0 ms | compute 6.60 ms, overlapped communication 1.00 ms, " in digest
    for text in (files.render_text(tuned, 500), render_profile(profiled, 500)):
        assert "\n".join(GOLDEN) in text


def test_the_digest_of_many_ranks_says_how_many_it_shows() -> None:
    digest = files.render_markdown(with_ranks(many(40))[0])
    assert f"### Ranks: {MOST_LINES} of 40" in digest


def test_hostile_names_of_ranks_are_text() -> None:
    def page(names: list[str]) -> str:
        same = {"step_ms": 3.0, "compute_ms": 2.0}
        ranks = [{"rank": name, **same, "backend": name, f"x{name}": 1.0} for name in names]
        return files.render_html(with_ranks(ranks)[1])

    hostile, plain = (
        [(node.tag, sorted(node.attrib)) for node in parse(page(names)).iter()] for names in (HOSTILE, PLAIN)
    )
    assert hostile == plain
