"""When a gate fails, when it passes, and what it says."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from builders import a_machine
from check_builder import a_check, a_failed_check, some_memory
from result_builder import HOSTILE, PLAIN, a_profile_result, a_rate, a_result, an_interval

from advisor.base.errors import TargetError, UsageError
from advisor.base.settings import Settings, TargetRequest
from advisor.report.files import write_report
from advisor.report.folder import check_folder
from advisor.report.pages.check_page import render_markdown, render_text, write_check
from advisor.result.check import CheckData, Checked, Resetting
from advisor.result.comparability import other_request
from advisor.result.document import Baseline, Interval, OverProcesses, Rate
from advisor.result.header import Target
from advisor.result.stored_step import of_interval, stored_step
from advisor.runs.check import changed_settings, of_check, refuse_reference
from advisor.runs.regression import Judgement, check_memory, check_step, is_contended, judge, undisturbed
from advisor.tuners.trial.messages import Slot

THEN = Interval(estimate=10.0, low=9.95, high=10.05)
NEAR = [[10.02, 10.0], [9.98], [10.01], [9.99], [10.0]]


def judged(instances: list[list[float]], then: Interval = THEN, **options: float) -> Judgement:
    return judge(of_interval(then), instances, **{"level": 0.99, "min_gain": 0.02, **options})


def times(factor: float) -> list[list[float]]:
    return [[factor * value for value in values] for values in NEAR]


def test_the_same_times_are_no_difference() -> None:
    assert judged(NEAR).verdict == "unchanged"


def test_a_step_that_takes_thirty_percent_longer_is_a_regression() -> None:
    found = judged(times(1.3))
    assert found.verdict == "regressed"
    assert math.exp(found.estimate) == pytest.approx(1.3, rel=0.01)


def test_growth_that_is_let_pass_is_told_but_does_not_fail() -> None:
    assert judged(times(1.015)).verdict == "within_limit"


def test_a_faster_step_is_an_improvement() -> None:
    assert judged(times(0.8)).verdict == "improved"


@pytest.mark.parametrize("min_gain", [0.0, 0.02, 0.2])
def test_the_smallest_regression_told_is_the_border_of_those_that_fail(min_gain: float) -> None:
    smallest = judged(NEAR, min_gain=min_gain).smallest
    assert judged(times((1 + smallest) * 1.001), min_gain=min_gain).verdict == "regressed"
    assert judged(times((1 + smallest) * 0.999), min_gain=min_gain).verdict != "regressed"


def test_one_stored_process_may_be_off_by_as_much_as_new_ones_differ() -> None:
    found = judged([[9.0], [10.0], [11.0]], an_interval(10.0, 0.0))
    assert found.half == pytest.approx(2 * found.half_now)  # sqrt(3 + 1)


def test_an_unchanged_program_rarely_fails_whatever_was_stored_of_one_process() -> None:
    """Process bias of 2 %, the stored interval 5 % wide by itself; at 99 % half a percent may fail."""
    generator, failed = random.Random(3), 0
    for _ in range(4000):
        stored = 10 * math.exp(generator.gauss(0, 0.02) + generator.gauss(0, 0.05 / 2.576))
        then = an_interval(stored, 0.05 * stored)
        now = [[10 * math.exp(generator.gauss(0, 0.02))] for _ in range(12)]
        failed += judged(now, then, min_gain=0.0).verdict == "regressed"
    assert failed <= 36  # 20 expected; the larger of the two errors in place of their sum fails 60


def test_a_figure_of_several_processes_needs_no_allowance_for_one() -> None:
    baseline = Baseline(
        config={}, step_ms=an_interval(11.0, 0.1), throughput=a_rate(100.0),
        over_processes_ms=OverProcesses(estimate=10.0, low=9.9, high=10.1, processes=7),
    )  # fmt: skip
    stored = stored_step(baseline)
    assert stored.interval.estimate == pytest.approx(10.0) and stored.alone(9.0) == stored
    slots = [[Slot((0.010 * factor,) * 3)] for factor in (1.0, 1.01, 0.99, 1.0, 1.0, 1.005)]
    options = {"level": 0.99, "min_gain": 0.02, "floor": 0.0}
    found = check_step(baseline, slots, sampled=False, of_profile=False, **options)
    assert found.verdict == "unchanged" and found.then == stored.interval
    alone = baseline.model_copy(update={"over_processes_ms": None, "step_ms": an_interval(10.0, 0.05)})
    wider = check_step(alone, slots, sampled=False, of_profile=False, **options)
    assert wider.smallest_regression is not None and found.smallest_regression is not None
    assert wider.smallest_regression > 1.3 * found.smallest_regression


@pytest.mark.parametrize(
    ("then", "floor"), [(an_interval(10.0, 0.2), 0.0), (an_interval(10.0, 0.0), 0.2)], ids=["stored", "floor"]
)
def test_a_regression_inside_the_stored_doubt_does_not_fail(then: Interval, floor: float) -> None:
    assert judged(times(1.15), an_interval(10.0, 0.0)).verdict == "regressed"
    assert judged(times(1.15), then, floor=floor).verdict == "unchanged"


def test_processes_that_differ_by_themselves_seldom_fail_the_gate() -> None:
    draw = random.Random(3)
    failed = 0
    for _ in range(400):
        off, *others = (10 * math.exp(draw.gauss(0, 0.03)) for _ in range(5))
        failed += (
            judged([[value] for value in others], an_interval(off, 0.001), min_gain=0.0).verdict
            == "regressed"
        )
    assert failed <= 8  # one in two hundred is expected


def slots(*step_s: float, work: float = 1.0, other: float = 0.0) -> list[Slot]:
    return [Slot((value,) * 10, work=work, other_cpu_s=other * 10 * value) for value in step_s]


def a_baseline(**fields: Any) -> Baseline:
    values: dict[str, Any] = {"config": {}, "step_ms": an_interval(10.0, 0.005), "throughput": a_rate(6400.0)}
    return Baseline(**(values | fields))


def step_of(instances: list[list[Slot]], *, sampled: bool = True, of_profile: bool = False) -> Checked:
    return check_step(
        a_baseline(), instances, sampled=sampled, of_profile=of_profile, level=0.99, min_gain=0.02, floor=0.0
    )


def test_the_time_of_a_step_is_told_then_and_now() -> None:
    found = step_of([slots(0.0130, work=64), slots(0.0131, work=64), slots(0.0129, work=64)])
    assert (found.verdict, found.per) == ("regressed", "step")
    assert found.now is not None and found.now.estimate == pytest.approx(13.0, rel=0.001)
    assert found.ratio is not None and found.ratio.instances == 3
    assert found.ratio.low < 1.3 < found.ratio.high


def test_a_step_over_twice_the_samples_is_judged_by_the_sample() -> None:
    found = step_of([slots(0.0150, work=128), slots(0.0151, work=128), slots(0.0149, work=128)])
    assert (found.verdict, found.per) == ("improved", "sample")
    assert found.now is not None and found.now.estimate == pytest.approx(15.0, rel=0.001)
    assert found.ratio is not None and found.ratio.estimate == pytest.approx(0.75, rel=0.001)


def test_without_samples_on_both_sides_a_step_is_a_step() -> None:
    assert step_of([slots(0.01, work=128)] * 3, sampled=False).per == "step"
    by_step = a_baseline(throughput=Rate(estimate=100, low=99, high=101, unit="steps/s"))
    options: Any = {"sampled": True, "of_profile": False, "level": 0.99, "min_gain": 0.02, "floor": 0.0}
    assert check_step(by_step, [slots(0.01, work=128)] * 3, **options).per == "step"


def test_a_profile_tells_medians_and_is_compared_with_medians() -> None:
    rare = [[Slot((0.01,) * 9 + (0.1,))] for _ in range(3)]
    assert step_of(rare, sampled=False).verdict == "regressed"
    assert step_of(rare, sampled=False, of_profile=True).verdict == "unchanged"


def test_more_memory_is_a_regression_and_unknown_memory_is_not_compared() -> None:
    assert check_memory(1000, [1200, 1201, 1199], level=0.99, min_gain=0.02).verdict == "regressed"
    assert check_memory(1000, [1001, 1000, 1002], level=0.99, min_gain=0.02).verdict == "unchanged"
    assert (
        check_memory(0, [1000] * 3, level=0.99, min_gain=0.02).why == "it was not measured in the reference"
    )
    assert check_memory(1000, [1000, 0, 1000], level=0.99, min_gain=0.02).verdict == "not_compared"


def test_disturbed_slots_are_left_out_while_enough_others_remain() -> None:
    quiet, loud = slots(0.1, 0.1, 0.1), slots(0.2, other=0.9)
    held_up = [Slot((0.2,), throttled_s=0.1), Slot((0.2,), flags=(("throttled", 1),))]
    assert undisturbed([*quiet, *loud, *held_up]) == (quiet, {"other_load": 1, "throttled": 2})
    assert undisturbed([*quiet[:2], *loud]) == ([*quiet[:2], *loud], {})


def test_a_machine_is_contended_when_others_use_a_good_part_of_a_cpu() -> None:
    assert is_contended([slots(0.1, 0.1, other=0.5)])
    assert not is_contended([slots(0.1, 0.1, other=0.05)])


SCRIPT = TargetRequest(kind="script", name="train.py", args=("--epochs", "1"))
HERE = a_machine()


def refusal(result: Any, request: TargetRequest = SCRIPT) -> UsageError:
    with pytest.raises(UsageError) as raised:
        refuse_reference(result, request, HERE)
    return raised.value


def test_a_result_of_this_machine_and_kind_is_taken_whatever_its_code_is() -> None:
    target = Target(path="train.py", kind="script", digest="sha256:other")
    refuse_reference(a_result(machine=HERE.as_json(), target=target), SCRIPT, HERE)
    refuse_reference(
        a_result(machine=HERE.as_json(), target=target), TargetRequest(kind="module", name="pkg.train"), HERE
    )


def test_another_machine_and_another_kind_are_refused_together() -> None:
    other = a_machine(cpus_allowed=2, torch="2.12.0").as_json()
    error = refusal(a_result(machine=other), TargetRequest(kind="workload", name="work.py"))
    assert error.message == (
        "not comparable: 2 CPUs and 4 CPUs; torch 2.12.0 and torch 2.13.0; "
        "target kind script and target kind workload"
    )
    assert error.exit_code == 2


def test_a_machine_stays_the_same_when_it_was_read_back_from_a_file() -> None:
    machine = json.loads(json.dumps(HERE.as_json()))
    refuse_reference(a_result(machine=machine), SCRIPT, HERE)


def test_a_result_without_a_step_is_no_reference() -> None:
    found = a_profile_result(machine=HERE.as_json(), baseline=None)
    assert refusal(found).message == "the result holds no time of a step"


def a_request(*command: str, args: tuple[str, ...] = ("--epochs", "1"), name: str = "train.py") -> Settings:
    return Settings(target=TargetRequest(kind="script", name=name, args=args), command=command)


def test_a_reference_of_the_same_request_needs_no_words() -> None:
    assert (
        other_request(a_result(), a_request("check", "train.py", "--against", "x", "--", "--epochs", "1"))
        == []
    )


def test_a_file_run_as_a_module_is_the_same_program() -> None:
    assert (
        other_request(
            a_result(target=Target(path="src/train.py", kind="script")), a_request(args=(), name="src.train")
        )
        == []
    )


def test_other_arguments_options_and_files_are_told() -> None:
    stored = a_result(command=["tune", "train.py", "--fix=amp=bf16", "--", "--device", "cuda"])
    said = other_request(stored, a_request("check", "b.py", "--device", "cpu", args=(), name="b.py"))
    assert [text.partition(": ")[2] for text in said] == [
        "arguments --epochs 1 and no arguments",
        "train.py and b.py",
        "--fix amp=bf16 and no --fix",
        "no --device and --device cpu",
    ]


def test_settings_that_the_program_changed_are_found() -> None:
    found = changed_settings(
        {"num_workers": 0, "amp": "off", "old": 1}, {"num_workers": 2, "amp": "off", "new": 1}
    )
    assert found == [Resetting(knob="num_workers", then=0, now=2)]


def test_the_text_opens_with_the_verdict_and_shows_what_grew() -> None:
    text = render_text(a_failed_check(), 100)
    assert render_text(a_failed_check(), 200).splitlines()[0] == (
        "Regression: the time of a step is 1.31x (1.24 to 1.38, 99 %, 6 processes) what it was; "
        "2.0 % is let pass."
    )
    assert "Time of a step: 38.4 ms (37.6 to 39.2) then, 50.3 ms (49.3 to 51.3) now: 1.31x" in text
    assert "Peak memory: 913 MiB then, 915 MiB (914 to 916) now: no clear difference" in text
    assert "7.6 % of the time of a step, 2.4 % of peak memory" in " ".join(text.split())
    backward, forward = (text.index(part) for part in ("backward", "forward"))
    assert backward < forward
    assert "sync" not in text
    assert "Next: `advisor profile train.py -- --epochs 1` shows" in text


def test_a_pass_says_what_it_could_not_have_seen() -> None:
    text = " ".join(render_text(a_check(), 80).split())
    assert text.startswith(
        "Passed: no growth of the time of a step or peak memory by more than 2.0 % was shown."
    )
    assert "The smallest regression that could have been seen: 5.7 % of the time of a step" in text
    assert "not interleaved with this run" in text
    assert "The code did not change since." in text


def test_hints_at_what_check_does_not_have_are_left_out() -> None:
    logs = Path("/tmp/check")
    told = {
        "its output is in /tmp/check/1/stderr.log": None,
        "`--budget 1m`, or fewer `--steps`": "`--budget 1m`",
        "pass its arguments after `--`: `advisor tune a.py -- -x`": "pass its arguments after `--`: "
        "`advisor check a.py -- -x`",
    }
    assert {hint: of_check(TargetError("x", hint=hint), logs).hint for hint in told} == told


def test_unknown_memory_is_said_and_is_no_part_of_the_verdict() -> None:
    text = render_text(a_check(peak_bytes=Checked(why="it was not measured in the reference")), 100)
    assert text.startswith("Passed: no growth of the time of a step by more")
    assert "Peak memory: not compared: it was not measured in the reference" in text


def test_growth_within_the_limit_is_told_as_such() -> None:
    step = some_memory().model_copy(update={"verdict": "within_limit"})
    assert "not shown to exceed the limit" in render_text(a_check(peak_bytes=step), 200)


@pytest.mark.parametrize("columns", [40, 80])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    text = render_text(a_failed_check(warnings=["other processes use this machine " * 5]), columns)
    assert max(map(len, text.splitlines())) <= columns


def test_markdown_of_hostile_names_has_the_rows_of_plain_ones() -> None:
    def shape(names: list[str]) -> list[int]:
        settings = [Resetting(knob=name, then=name, now=name) for name in names]
        text = render_markdown(a_failed_check(warnings=list(names), settings=settings, command=list(names)))
        return [line.count("|") for line in text.splitlines() if line.startswith("|")]

    assert shape(HOSTILE) == shape(PLAIN)


def test_the_document_reads_back_as_it_was() -> None:
    found = a_failed_check()
    assert CheckData.model_validate_json(found.to_json()) == found
    assert json.loads(found.to_json())["schema_version"] == 1


def test_a_check_is_written_again_over_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_check(a_check(), folder)
    write_check(a_failed_check(), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["check.json", "check.md"]
    assert json.loads((folder / "check.json").read_text())["verdict"] == "regressed"


def test_a_check_is_written_beside_a_report_and_not_among_other_files(tmp_path: Path) -> None:
    write_report(a_result(), tmp_path / "report")
    write_check(a_check(), tmp_path / "report")
    assert (tmp_path / "report" / "report.html").exists()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="was not made by advisor"):
        check_folder(tmp_path / "notes")
