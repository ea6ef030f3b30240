"""What is tried first is what promises most for the seconds that it takes on this program."""

from dataclasses import replace
from typing import Any

import pytest
from builders import a_loader, a_machine, a_profile, a_root, a_window, an_op, an_optimizer

from advisor.profiles.facts.observed import HostFacts, MemoryUse
from advisor.profiles.facts.profile import Profile, RunFacts, StepPhases
from advisor.profiles.facts.recorded import PointwiseChains
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.costs import Costs
from advisor.tuners.search.ordering import LEAST_GAIN, Expectations
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

CHOICES: dict[str, list[Value]] = {
    "num_threads": [2, 1],
    "malloc": ["libc", "libc-tuned"],
    "channels_last": ["off", "on"],
    "execution": ["eager", "compile"],
    "optimizer_implementation": ["default", "fused"],
    "num_workers": [0, 4, 8, 2, 1],
}
CONVOLUTIONAL = a_window(
    an_op("aten::convolution_backward", 500.0), an_op("aten::mkldnn_convolution", 300.0),
    step_ms=900.0, dispatches=300.0,
)  # fmt: skip


def a_program(step_ms: float = 900.0, wait_ms: float = 0.0, **facts: Any) -> Profile:
    """Two threads that compute all the time, in steps that are nearly all convolutions."""
    rest = step_ms - wait_ms
    phases = StepPhases(
        step_ms, input_wait_ms=wait_ms, forward_ms=0.3 * rest, backward_ms=0.68 * rest,
        optimizer_ms=0.02 * rest, steps=20,
    )  # fmt: skip
    profile = a_profile(
        a_machine(cpus_allowed=2, physical_cores=2), phases_ms={}, loader=a_loader(),
        optimizers=(an_optimizer(),), run=RunFacts(num_threads=2), host=HostFacts(cpu_per_wall=1.9),
        roots=(a_root(dense_convolutions=20, convolution_dimensions=(2,), takes_4d_input=True),),
        window=CONVOLUTIONAL, memory=MemoryUse(2**30, minor_faults_per_step=2000.0, system_share=0.02),
    )  # fmt: skip
    return replace(profile, phases=phases, **facts)


def order(
    profile: Profile,
    startup_s: float = 5.0,
    priorities: dict[str, float] | None = None,
    waits: float | None = None,
    least: float = LEAST_GAIN,
    doubted: frozenset[str] = frozenset(),
    **arena: Any,
) -> list[str]:
    present = Configuration({name: values[0] for name, values in CHOICES.items()})
    space = Space(present, present, CHOICES, [], profile)
    step_s = profile.phases.step_ms / 1e3 if profile.phases is not None else 0.1
    measured = Arena(None, KNOBS, present, step_s=step_s, **arena)  # type: ignore[arg-type]  # nothing is started
    costs = Costs(measured, startup_s)
    return Expectations(space, KNOBS, costs, priorities or {}, least, doubted).order(present, waits)


def test_on_long_convolutional_steps_layouts_come_before_allocators_and_fewer_threads() -> None:
    found = order(a_program())
    assert found.index("channels_last") < found.index("malloc")
    assert found.index("channels_last") < found.index("num_threads")
    assert found.index("execution") < found.index("num_threads")


def test_an_allocator_comes_first_where_page_faults_say_so() -> None:
    faults = MemoryUse(2**30, minor_faults_per_step=300_000.0, system_share=0.3)
    assert order(a_program(memory=faults)).index("malloc") < order(a_program()).index("malloc")


def test_threads_that_stand_still_half_of_the_time_are_tried_before_those_that_work() -> None:
    profile = a_program(host=HostFacts(cpu_per_wall=0.6, one_thread_step_ms=300.0))
    assert order(profile)[0] == "num_threads"


def test_workers_come_first_where_a_finding_proves_the_wait_and_items_explain_it() -> None:
    loader = a_loader(item_ms=15.0, cpu_share=0.02)
    profile = a_program(500.0, 490.0, loader=loader, window=None)
    assert order(profile, 18.0, {"num_workers": 0.9})[0] == "num_workers"


def test_what_needs_a_start_comes_later_the_longer_that_takes() -> None:
    quick, slow = (
        order(a_program(30.0, host=None, window=None, memory=None), startup_s) for startup_s in (0.1, 60.0)
    )
    assert slow.index("optimizer_implementation") < slow.index("channels_last")
    assert slow.index("optimizer_implementation") <= quick.index("optimizer_implementation")


def test_values_that_promise_a_loss_are_tried_last() -> None:
    profile = a_program(500.0, 490.0, loader=a_loader(item_ms=15.0, cpu_share=0.02))
    present = Configuration({name: values[0] for name, values in CHOICES.items()} | {"num_threads": 2})
    choices: dict[str, list[Value]] = {**CHOICES, "num_threads": [2, 1, 4]}
    space = Space(present, present, choices, [], profile)
    arena = Arena(None, KNOBS, present)  # type: ignore[arg-type]  # nothing is started
    expectations = Expectations(space, KNOBS, Costs(arena), {})
    assert expectations.ordered("num_threads", present) == [4, 1]
    assert expectations.ordered("num_workers", present) == [4, 8, 2, 1]


def test_what_only_serves_data_comes_after_all_that_can_gain_where_nothing_waits() -> None:
    loader = a_loader(item_ms=15.0, cpu_share=0.02)
    profile = a_program(500.0, 490.0, loader=loader, window=CONVOLUTIONAL)
    waiting, cured = (order(profile, priorities={"num_workers": 0.9}, waits=waits) for waits in (0.9, 0.0))
    assert waiting[0] == "num_workers"
    assert cured.index("num_workers") > cured.index("channels_last")


@pytest.mark.parametrize(("waits", "prompt"), [(None, True), (0.9, True), (0.02, False)])
def test_a_knob_that_only_serves_data_promises_no_more_than_what_still_waits(
    waits: float | None, prompt: bool
) -> None:
    """Though a finding, made before workers came in, speaks for it."""
    present = Configuration({name: values[0] for name, values in CHOICES.items()})
    profile = a_program(500.0, 490.0, loader=a_loader(item_ms=15.0))
    measured = Arena(None, KNOBS, present, step_s=0.5)  # type: ignore[arg-type]  # nothing is started
    expectations = Expectations(
        Space(present, present, CHOICES, [], profile), KNOBS, Costs(measured), {"num_workers": 0.9}, 0.05
    )
    assert expectations.is_prompt("num_workers", [4], present, 1e9, waits) is prompt


def test_what_could_not_be_confirmed_counts_as_nothing_beside_what_could() -> None:
    phases = StepPhases(30.0, forward_ms=10.0, backward_ms=17.0, optimizer_ms=3.0, steps=20)
    profile = replace(a_program(30.0, host=None), phases=phases)
    cheap, sure = (order(profile, least=least) for least in (0.01, 0.1))
    assert cheap.index("optimizer_implementation") < cheap.index("channels_last")
    assert sure.index("optimizer_implementation") > sure.index("channels_last")


def test_of_what_could_not_be_confirmed_alone_the_most_promising_for_its_seconds_comes_first() -> None:
    chains = PointwiseChains(90.0, 40.0, ("aten::add", "aten::relu"), bytes_moved=4e6, bytes_fused=1e6)
    window = replace(CONVOLUTIONAL, pointwise=chains)
    faults = MemoryUse(2**30, minor_faults_per_step=2000.0, system_share=0.02)
    found = order(a_program(window=window, memory=faults), least=0.1)
    assert found.index("execution") < found.index("malloc")


def test_values_of_which_nothing_is_expected_come_after_those_that_promise_something() -> None:
    present = Configuration({"execution": "eager"})
    choices: dict[str, list[Value]] = {"execution": ["eager", "jit_script", "compile"]}
    space = Space(present, present, choices, [], a_program())
    arena = Arena(None, KNOBS, present)  # type: ignore[arg-type]  # nothing is started
    assert Expectations(space, KNOBS, Costs(arena), {}).ordered("execution", present) == [
        "compile", "jit_script",
    ]  # fmt: skip


def test_what_follows_a_runtime_comes_later_until_that_is_there() -> None:
    choices: dict[str, list[Value]] = {
        "allow_spinning": ["off", "on"], "runtime": ["torch", "onnxruntime"], "num_threads": [2, 1],
    }  # fmt: skip
    present = Configuration({name: values[0] for name, values in choices.items()})
    arena = Arena(None, KNOBS, present, step_s=0.001)  # type: ignore[arg-type]  # nothing is started
    expectations = Expectations(Space(present, present, choices, [], a_program()), KNOBS, Costs(arena), {})
    assert expectations.order(present).index("allow_spinning") > 0
    assert expectations.order(present.with_({"runtime": "onnxruntime"}))[0] == "allow_spinning"


def test_a_knob_whose_value_was_not_confirmed_comes_later() -> None:
    before = order(a_program())
    first = before[0]
    assert order(a_program(), doubted=frozenset({first})).index(first) > 0
