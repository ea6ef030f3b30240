"""One sentence for the top of a report: what was found most, or that the run computes all the time."""

from always_rules import a_rule
from builders import a_device, a_gpu_profile, a_machine, a_profile, a_window

from advisor.advice.advise import advise, summary
from advisor.advice.finding import Kind, State
from advisor.profiles.facts.profile import StepPhases
from advisor.profiles.facts.recorded import DeviceTime
from advisor.rules import RULES


def test_the_summary_is_the_first_finding_that_matters() -> None:
    findings = advise(a_profile(), {"a": a_rule("a", 0.05), "b": a_rule("b", 0.4)})
    assert summary(findings, a_profile()) == "b"


def test_headroom_stands_behind_that_nothing_is_wasted_and_low_severities_nowhere() -> None:
    rules = {"a": a_rule("a", 0.05), "b": a_rule("b", 0.4, kind=Kind.HEADROOM), "c": a_rule("c", 0.05)}
    nothing = "Nothing found that wastes more than a few percent"
    assert summary(advise(a_profile(), rules), a_profile()) == f"{nothing}; b"
    del rules["b"]
    assert summary(advise(a_profile(), rules), a_profile()) == nothing


def test_a_run_that_computes_nine_tenths_of_its_step_is_called_compute_bound() -> None:
    computing = a_profile(phases_ms={"forward": 3.0, "backward": 5.0, "optimizer": 1.1})
    assert summary([], computing) == "91 % of the step computes: the run is compute-bound"
    waiting = a_profile(phases_ms={"forward": 3.0, "backward": 5.0, "other": 2.0})
    assert summary([], waiting) == "Nothing found that wastes more than a few percent"


def test_a_step_with_a_device_is_compute_bound_only_where_the_device_computes() -> None:
    idle = DeviceTime(3.9078, 0.3072, 0.0, 0.0022, 3.5984)
    busy = DeviceTime(10.0, 9.4, 0.3, 0.1, 0.2)
    host = a_profile(phases_ms={"forward": 9.6}).phases
    waiting = a_gpu_profile(window=a_window(device=a_device(time=idle)), phases=host)
    computing = a_gpu_profile(window=a_window(device=a_device(time=busy)), phases=host)
    assert summary([], waiting) == "the device computes for 7.9 % of the step, stands still for 92 %"
    assert summary([], computing) == "94 % of the step computes: the run is compute-bound"


def test_a_trace_without_events_of_its_device_is_not_called_compute_bound() -> None:
    host = a_profile(phases_ms={"forward": 9.6}).phases
    trace = a_profile(a_machine(cuda=True), target_kind="trace", phases=host)
    assert summary([], trace).endswith("no event of a device was recorded")
    on_cpu = a_profile(a_machine(cuda=False), target_kind="trace", phases=host)
    assert summary([], on_cpu).endswith("the run is compute-bound")


def test_a_device_that_works_for_a_part_of_the_hosts_step_is_not_called_busy() -> None:
    works = DeviceTime(
        total_ms=4.0, computing_ms=3.9, exposed_communication_ms=0.0, exposed_copies_ms=0.0, idle_ms=0.1
    )
    host = a_profile(phases_ms={"forward": 9.6}).phases
    short = a_gpu_profile(window=a_window(device=a_device(time=works)), phases=host)
    assert summary([], short) == "the device works for 4 ms of the host's 10 ms, and computes 98 % of that"


def test_where_no_rule_names_what_the_device_does_besides_its_time_is_told() -> None:
    time = DeviceTime(124.0, 92.0, 12.0, 16.0, 4.0)
    told = summary([], a_gpu_profile(window=a_window(device=a_device(time=time))))
    assert told == (
        "the device computes for 74 % of the step, copies alone for 13 %, exchanges alone for 9.7 %"
    )


def test_short_and_long_times_are_told_without_exponents() -> None:
    works = DeviceTime(0.00176, 0.00176, 0.0, 0.0, 0.0)
    phases = StepPhases(step_ms=13336.0, forward_ms=13336.0, steps=1)
    window = a_window(device=a_device(time=works), clean_step_ms=13336.0)
    told = summary([], a_gpu_profile(window=window, phases=phases))
    assert told.startswith("the device works for 0.00176 ms of the host's 13,336 ms")


def test_steps_that_capture_a_graph_are_not_called_idle() -> None:
    window = a_window(device=a_device(captures=1.0, idle_share=0.99, launch_share=0.99))
    profile = a_gpu_profile(window=window)
    assert "capture a graph" in summary([], profile)
    told = {finding.rule: finding for finding in advise(profile, RULES)}
    assert told["launch_bound"].state is told["idle_device"].state is State.NOT_APPLICABLE


def test_what_a_compute_bound_run_could_gain_stands_in_the_summary() -> None:
    computing = a_profile(phases_ms={"forward": 9.1})
    findings = advise(a_profile(), {"b": a_rule("b", 0.4, kind=Kind.HEADROOM)})
    assert summary(findings, computing) == "91 % of the step computes; b"


def test_parts_that_sum_to_more_than_the_step_do_not_compute_more_than_all_of_it() -> None:
    odd = a_profile(phases_ms={"forward": 6.0, "backward": 5.0})
    assert summary([], odd) == "100 % of the step computes: the run is compute-bound"
