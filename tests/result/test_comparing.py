"""Two results side by side, or the reason why not."""

import json
import math
from typing import Any

import pytest
from html_tree import controls
from result_builder import (
    HOSTILE,
    MACHINE,
    NOW,
    PLAIN,
    a_finding,
    a_hostile_result,
    a_keep,
    a_named_result,
    a_profile_result,
    a_rate,
    a_result,
    an_interval,
    some_findings,
)

from advisor.base.errors import UsageError
from advisor.report.markdown import MOST_BYTES
from advisor.report.pages.compare_page import finding_lines, notes, render_markdown, rows, sentence
from advisor.result.compare import ComparisonData, Given, Pair, compare
from advisor.result.document import Baseline, Interval, OverProcesses, ProfileData, ResultData
from advisor.result.header import Target
from advisor.result.wording import shown

Any_ = ResultData | ProfileData


def a_baseline(step_ms: Interval | None = None, **fields: Any) -> Baseline:
    values: dict[str, Any] = {
        "config": dict(NOW), "step_ms": step_ms or an_interval(38.4), "throughput": a_rate(1666.7),
        "peak_bytes": 913 * 2**20,
    }  # fmt: skip
    return Baseline(**(values | fields))


def of(a: Any_, b: Any_) -> ComparisonData:
    return compare(Given("old", a), Given("new", b))


def refusal(a: Any_, b: Any_) -> str:
    with pytest.raises(UsageError) as raised:
        of(a, b)
    assert raised.value.exit_code == 2
    assert raised.value.hint or "twice" in raised.value.message
    return raised.value.message


def test_the_ratio_is_the_time_of_a_step_in_b_over_a_with_both_intervals_in_it() -> None:
    faster = a_baseline(an_interval(19.2), throughput=a_rate(3333.3))
    ratio = of(a_result(), a_result(baseline=faster)).step_ratio
    assert ratio is not None
    assert ratio.estimate == pytest.approx(0.5)
    one_process = math.hypot(math.log(1 / 0.98), math.log(1.02))  # its interval, and its bias
    assert math.log(ratio.high / ratio.estimate) == pytest.approx(math.sqrt(2) * one_process, rel=1e-6)
    assert ratio.low < 0.49 < 0.5 < 0.51 < ratio.high


def test_results_of_several_processes_hold_their_bias_and_are_told_apart_better() -> None:
    known = OverProcesses(estimate=38.4, low=38.2, high=38.6, processes=7)
    alone, several = a_baseline(an_interval(39.0, 0.01)), a_baseline(over_processes_ms=known)
    both = of(a_result(baseline=several), a_keep(baseline=several.model_copy()))
    mixed = of(a_result(baseline=several), a_keep(baseline=alone))
    assert both.a.processes == 7 and mixed.b.processes == 1
    assert both.smallest_difference is not None and mixed.smallest_difference is not None
    assert both.smallest_difference < 0.01 < mixed.smallest_difference
    assert "over the processes of both results." in " ".join(notes(both))
    assert "B: one process, its bias allowed for" in " ".join(notes(mixed))
    assert "Differences from " in " ".join(notes(mixed))


def test_one_process_each_is_not_told_apart_by_less_than_processes_differ() -> None:
    noisy = a_keep(baseline=a_baseline(an_interval(40.0, 0.001)))
    noisy.noise.smallest_detectable = 0.06
    found = of(a_result(baseline=a_baseline(an_interval(38.4, 0.001))), noisy)
    assert sentence(found).startswith("Time of a step: no clear difference")


def test_peak_memory_is_told_as_a_ratio_too() -> None:
    assert of(a_result(), a_keep()).memory_ratio == pytest.approx(1.0)


def test_swapping_both_turns_the_ratio_round() -> None:
    slow, fast = (
        a_result(),
        a_result(baseline=a_baseline(Interval(estimate=19, low=18, high=21), throughput=a_rate(3368))),
    )
    there, back = of(slow, fast).step_ratio, of(fast, slow).step_ratio
    assert there is not None and back is not None
    assert there.low == pytest.approx(1 / back.high)
    assert there.high == pytest.approx(1 / back.low)


def test_the_same_result_twice_is_refused_also_as_a_copy() -> None:
    copy = ResultData.model_validate_json(a_result().to_json())
    assert refusal(a_result(), copy) == "the same result twice: old and new"


OTHER_MACHINES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "GPU": ({"gpus": [{"name": "A100"}]}, {"gpus": [{"name": "H100"}]}, "not comparable: A100 and H100"),
    "torch": ({"torch": "2.13.0"}, {"torch": "2.14.0"}, "not comparable: torch 2.13.0 and torch 2.14.0"),
    "CPUs": ({"cpus_allowed": 4}, {"cpus_allowed": 2}, "not comparable: 4 CPUs and 2 CPUs"),
    "something else": ({}, {}, "not comparable: machine one and machine other"),
}


@pytest.mark.parametrize(("one", "other", "told"), OTHER_MACHINES.values(), ids=OTHER_MACHINES)
def test_another_machine_is_refused_with_what_differs(
    one: dict[str, Any], other: dict[str, Any], told: str
) -> None:
    a = a_result(machine=MACHINE | {"fingerprint": "one"} | one)
    b = a_keep(machine=MACHINE | {"fingerprint": "other"} | other)
    assert refusal(a, b) == told


def test_a_trace_is_refused_because_its_machine_is_not_known() -> None:
    trace = a_profile_result(machine={"fingerprint": "", "gpus": ["A100"]})
    assert refusal(trace, a_result()) == "not comparable: the machine of old is not known"


def a_target(**fields: Any) -> Target:
    return Target(**({"path": "train.py", "kind": "script", "args": [], "digest": "sha256:9b1c"} | fields))


OTHER_TARGETS: dict[str, tuple[Target, str]] = {
    "code": (a_target(digest="sha256:77aa"), "train.py (sha256:9b1c) and train.py (sha256:77aa)"),
    "arguments": (a_target(args=["--epochs", "2"]), "no arguments and arguments --epochs 2"),
    "kind": (a_target(kind="workload"), "target kind script and target kind workload"),
    "unknown code of another name": (a_target(digest="", path="b.py"), "train.py and b.py"),
}


@pytest.mark.parametrize(("target", "told"), OTHER_TARGETS.values(), ids=OTHER_TARGETS)
def test_another_program_is_refused_with_what_differs(target: Target, told: str) -> None:
    assert refusal(a_result(target=a_target()), a_keep(target=target)) == f"not comparable: {told}"


def test_all_reasons_are_told_at_once() -> None:
    other = a_keep(
        machine=MACHINE | {"fingerprint": "x", "torch": "2.14.0"}, target=a_target(digest="sha256:1")
    )
    told = refusal(a_result(), other)
    assert all(part in told for part in ("torch 2.14.0", "sha256:1", "no arguments"))


def test_code_of_which_no_digest_is_known_is_compared_by_its_name() -> None:
    a, b = a_result(target=a_target(digest="")), a_keep(target=a_target(digest=""))
    assert of(a, b).step_ratio is not None


WITHOUT_RATIO: dict[str, tuple[Any_, str]] = {
    "a profile": (a_profile_result(), "tune measures slots of several steps"),
    "no step": (a_profile_result(baseline=None), "new holds no time of a step"),
    "other samples": (
        a_keep(baseline=a_baseline(an_interval(76.8))), "a step works on 64.0 samples in A and on 128 in B",
    ),
    "no lower end": (
        a_keep(baseline=a_baseline(Interval(estimate=38, low=0, high=40))), "reaches down to zero",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("other", "why"), WITHOUT_RATIO.values(), ids=WITHOUT_RATIO)
def test_times_that_do_not_mean_the_same_get_no_ratio_but_stand_side_by_side(other: Any_, why: str) -> None:
    found = of(a_result(), other)
    assert found.step_ratio is None
    assert why in found.why_no_ratio
    assert why in sentence(found)
    assert dict((name, a) for name, a, _ in rows(found))["time of a step"] == "38.4 ms (37.6 to 39.2)"


def test_recommendations_and_settings_are_told_where_they_differ() -> None:
    other = a_keep(baseline=a_baseline(config=NOW | {"amp": "bf16"}))
    found = of(a_result(), other)
    assert found.changes == [Pair(knob="num_workers", a=2), Pair(knob="amp", a="bf16")]
    assert found.settings == [Pair(knob="amp", a="off", b="bf16")]
    told = {name: (a, b) for name, a, b in rows(found)}
    assert told["recommendation"] == ("2 changes: 2.09x (2.01 to 2.17)", "keep what you have")
    assert told["change num_workers"] == ("2", "not recommended")
    assert told["setting amp"] == ("off", "bf16")


def test_findings_that_came_and_went_are_told_with_their_state_on_the_other_side() -> None:
    before = a_result(findings=some_findings())
    moved = a_finding(location={"file": "train.py", "line": 42, "function": "main"}, title="still waits")
    after = a_result(findings=[moved, a_finding("optimizer_bound"), a_finding("memory_growth", "passed")])
    found = of(before, after)
    assert [(one.rule, one.elsewhere) for one in found.came] == [("optimizer_bound", "passed")]
    assert [(one.rule, one.elsewhere) for one in found.went] == [
        ("slow_item", "absent"), ("amp_unused", "absent"), ("memory_growth", "passed"),
    ]  # fmt: skip
    assert found.stayed == ["input_bound"]
    lines = finding_lines(found)
    assert "Came with B (1):" in lines
    assert any(line.startswith("  [high] slow_item: 41 % of each step") for line in lines)


def test_without_findings_on_either_side_that_is_said() -> None:
    assert finding_lines(of(a_result(), a_keep())) == ["", "No finding fired in either."]


def test_the_parts_of_a_step_stand_side_by_side() -> None:
    told = {name: (a, b) for name, a, b in rows(of(a_result(), a_keep()))}
    assert told["part input wait"] == ("16.2 ms (42 %)", "16.2 ms (42 %)")
    assert "part communication" not in told


def test_the_sentence_says_which_is_faster_or_that_nothing_can_be_told() -> None:
    same = of(a_result(), a_keep())
    assert sentence(same) == "Time of a step: no clear difference (0.96 to 1.04)."
    faster = of(a_result(), a_keep(baseline=a_baseline(an_interval(19.2), throughput=a_rate(3333.3))))
    assert sentence(faster).startswith("A step takes 0.50x (0.48 to 0.52, 99 %) as long in B as in A.")


def test_markdown_says_that_the_two_were_not_interleaved() -> None:
    text = render_markdown(of(a_result(), a_keep()))
    assert text.splitlines()[1].startswith("**Time of a step")
    assert "They were not interleaved" in text
    assert "| what | A | B |" in text


def side_by_side(names: list[str]) -> str:
    fixed, other = (with_fingerprint(a_named_result(names)) for _ in range(2))
    other.created = "later"
    return render_markdown(compare(Given(names[0], fixed), Given(names[0], other)))


def many_findings(count: int, title: str) -> ResultData:
    found = [
        a_finding(f"rule_{at}", title=title, location={"file": "t.py", "line": at}) for at in range(count)
    ]
    return a_result(findings=found)


def test_long_tables_of_the_markdown_say_how_many_rows_they_leave_out() -> None:
    text = render_markdown(of(a_result(), many_findings(300, "slow")))
    assert "### Findings that came with B: 20 of 300\n" in text
    assert text.count("| medium |") == 20


def test_markdown_fits_a_comment_by_leaving_whole_sections_out() -> None:
    crowded = Baseline.model_validate(
        a_baseline().model_dump() | {"config": {f"knob_{at}": at for at in range(3000)}}
    )
    other = crowded.model_copy(update={"config": {f"knob_{at}": at + 1 for at in range(3000)}})
    text = render_markdown(of(a_result(baseline=crowded), a_result(baseline=other)))
    assert len(text.encode()) < MOST_BYTES
    assert text.startswith("<!-- advisor compare -->\n**Time of a step: no clear difference")
    assert "A: old" in text and "They were not interleaved" in text and "| knob" not in text
    assert text.rstrip().endswith("Everything is in `advisor compare A B --format json`.")
    assert "Left out to fit a comment: figures." in text.replace("findings in both, ", "")


def test_hostile_names_leave_every_row_of_the_markdown_one_row() -> None:
    hostile = side_by_side([name for name in HOSTILE if shown(name)])
    harmless = side_by_side([name for name in PLAIN if name])
    shapes = [
        [line.count("|") for line in text.splitlines() if line.startswith("|")]
        for text in (hostile, harmless)
    ]
    assert shapes[0] == shapes[1]
    assert not controls(hostile)


def with_fingerprint(result: ResultData) -> ResultData:
    result.machine["fingerprint"] = "here"
    return result


def test_the_document_is_json_also_of_a_file_with_numbers_that_are_none() -> None:
    a, b = (with_fingerprint(each) for each in (a_hostile_result(), a_hostile_result()))
    b.created = "later"
    a.machine["load"] = float("nan")
    document = json.loads(of(a, b).to_json(), parse_constant=pytest.fail)
    assert document["schema_version"] == 1
    assert document["machine"]["load"] is None
    assert ComparisonData.model_validate(document).a.name == "old"
