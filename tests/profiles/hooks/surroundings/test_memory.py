"""What a step needs memory for, what grows, and what outlives its step."""

import gc
import itertools
from collections.abc import Iterator

import pytest
import torch
from taps import Program, watching
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.graphs import RetainedGraphs, count_nodes
from advisor.profiles.hooks.surroundings.growth import MOST, Samples
from advisor.profiles.hooks.watch import Watch

MIB = 2**20


def grown(sizes: Iterator[int], steps: int) -> Samples:
    samples = Samples(lambda: next(sizes))
    for _ in range(steps):
        samples.step()
    return samples


def test_a_steady_leak_is_measured_per_step() -> None:
    growth = grown(itertools.count(100 * MIB, 10 * MIB), 200).growth()
    assert growth is not None and growth.monotone
    assert growth.bytes_per_step == MIB and growth.bytes == growth.steps * MIB


def test_one_jump_is_no_growth() -> None:
    growth = grown(itertools.chain([0] * 5, itertools.repeat(100 * MIB)), 300).growth()
    assert growth is not None and growth.bytes_per_step == 0 and not growth.monotone


def test_a_level_that_swings_is_no_growth() -> None:
    growth = grown(itertools.cycle([100 * MIB, 120 * MIB]), 400).growth()
    assert growth is not None and abs(growth.bytes_per_step) < 1000 and not growth.monotone


def test_a_long_run_is_sampled_more_rarely() -> None:
    reads = itertools.count()
    samples = grown(reads, 10 * MOST * 3)
    growth = samples.growth()
    assert growth is not None and growth.steps > 10 * MOST * 2.5
    assert next(reads) < 2 * MOST


def test_a_few_steps_tell_nothing_of_growth() -> None:
    assert grown(itertools.count(), 15).growth() is None


def test_memory_of_a_step_is_divided() -> None:
    with watching() as taps:
        program = Program(nn.Sequential(nn.Linear(4, 1000), nn.Tanh(), nn.Linear(1000, 1)))
        program.inputs = torch.ones(50, 4)
        program.step()
        assert taps.memory.facts().activation_bytes is None
        taps.inspect(True)
        program.step()
        program.step()
        taps.inspect(False)
        use = taps.memory.facts()
    held = 4 * (4 * 1000 + 1000 + 1000 + 1)
    assert (use.parameter_bytes, use.gradient_bytes, use.optimizer_bytes) == (held, held, held)
    # what tanh returned is saved once for itself and the next layer; all else is small
    assert use.activation_bytes is not None and 200_000 <= use.activation_bytes <= 203_000
    assert use.other_bytes == use.host_peak_bytes - 3 * held - use.activation_bytes
    assert use.host_limit_bytes and use.host_used_share is not None and 0 < use.host_used_share <= 1


def test_activations_of_accumulated_batches_are_not_added() -> None:
    with watching() as taps:
        program = Program(nn.Sequential(nn.Linear(4, 1000), nn.Tanh(), nn.Linear(1000, 1)))
        program.inputs = torch.ones(50, 4)
        program.step()
        taps.inspect(True)
        for _ in range(4):
            program.model(program.inputs).mean().backward()
        program.optimizer.step()
        taps.inspect(False)
        use = taps.memory.facts()
    assert use.activation_bytes is not None and use.activation_bytes <= 203_000


def test_inspecting_memory_changes_no_number() -> None:
    bare = Program()
    expected = [bare.step() for _ in range(3)]
    with watching() as taps:
        program = Program()
        losses = [program.step()]
        taps.inspect(True)
        losses.append(program.step())
        taps.inspect(False)
        losses.append(program.step())
    assert losses == expected


def test_page_faults_are_those_of_the_watched_window() -> None:
    with watching() as taps:
        program = Program()
        program.step()
        assert taps.memory.facts().minor_faults_per_step is None
        taps.memory.begin()
        for _ in range(40):
            program.step()
            taps.memory.step()
        torch.ones(8 * MIB)  # 32 MiB, page by page
        taps.memory.end()
        use = taps.memory.facts()
    assert use.minor_faults_per_step is not None and use.minor_faults_per_step > 10
    assert use.major_faults_per_step is not None and use.swapped_in_bytes is not None
    assert use.system_share is not None and 0 <= use.system_share <= 1
    assert use.growth_steps > 0 and use.retained_graph_nodes_per_step == 0


def test_an_accumulated_loss_is_found_with_the_line_that_adds_to_it() -> None:
    with watching() as taps:
        program = Program()
        total = torch.zeros(())
        for number in range(24):
            loss = program.model(program.inputs).mean()
            loss.backward()
            program.optimizer.step()
            total += loss
            if number == 4:
                taps.memory.begin()
        taps.memory.end()
        use = taps.memory.facts()
    assert use.retained_graph_nodes_per_step is not None and use.retained_graph_nodes_per_step > 3
    assert use.retained_name == "total" and use.retained_location is not None
    here = test_an_accumulated_loss_is_found_with_the_line_that_adds_to_it.__code__.co_firstlineno
    assert use.retained_location.line == here + 8


class History:
    def __init__(self) -> None:
        self.losses: list[torch.Tensor] = []

    def keep(self, program: Program, graphs: RetainedGraphs) -> None:
        for number in range(25):
            self.losses.append(program.model(program.inputs).mean())
            if number in (4, 24):
                graphs.look(number)


def test_losses_kept_in_a_list_are_found() -> None:
    graphs, history = RetainedGraphs(), History()
    history.keep(Program(), graphs)
    assert graphs.found is not None and graphs.found.nodes_per_step > 3
    assert graphs.found.name == "self.losses" and graphs.found.location is not None
    assert graphs.found.location.line == History.keep.__code__.co_firstlineno + 2


def test_a_graph_that_is_larger_in_a_later_step_is_not_kept() -> None:
    graphs, program = RetainedGraphs(), Program()
    for number in range(1, 31):
        loss = program.model(program.inputs).mean()
        for _ in range(number):
            loss = loss.sin()
        if number in (4, 30):
            graphs.look(number)
    assert graphs.found is not None and graphs.found.nodes_per_step == 0
    graphs.look(60)  # the first of the next two
    assert graphs.found is not None


def kept_until(steps: int, least: int) -> RetainedGraphs:
    """Losses are kept from step ``least`` on; the program ends after one look."""
    graphs, program = RetainedGraphs(), Program()
    losses = []
    for number in range(steps):
        loss = program.model(program.inputs).mean()
        if number >= least:
            losses.append(loss)
    graphs.look(steps)
    return graphs


def test_losses_of_all_steps_are_found_at_the_only_look() -> None:
    found = kept_until(60, 0).found
    assert found is not None and found.name == "losses" and found.nodes_per_step > 3


@pytest.mark.parametrize(("steps", "least"), [(60, 30), (20, 0)], ids=["not of all steps", "few steps"])
def test_what_may_belong_to_the_present_step_is_not_told_at_the_only_look(steps: int, least: int) -> None:
    assert kept_until(steps, least).found is None


def test_losses_kept_by_name_are_found() -> None:
    graphs, program = RetainedGraphs(), Program()
    history: dict[str, list[torch.Tensor]] = {"loss": []}
    for number in range(25):
        history["loss"].append(program.model(program.inputs).mean())
        if number in (4, 24):
            graphs.look(number)
    assert graphs.found is not None and graphs.found.name == "history"
    line = test_losses_kept_by_name_are_found.__code__.co_firstlineno + 4
    assert graphs.found.location is not None and graphs.found.location.line == line


KEPT: list[torch.Tensor] = []


def keep(loss: torch.Tensor) -> None:
    KEPT.append(loss)


def test_a_global_is_found_with_the_function_that_adds_to_it() -> None:
    graphs, program = RetainedGraphs(), Program()
    for number in range(25):
        keep(program.model(program.inputs).mean())
        if number in (4, 24):
            graphs.look(number)
    KEPT.clear()
    assert graphs.found is not None and graphs.found.name == "KEPT"
    place = graphs.found.location
    assert place is not None
    assert (place.line, place.function) == (keep.__code__.co_firstlineno + 1, "keep")


def test_the_graph_of_the_present_step_is_no_leak() -> None:
    graphs, program = RetainedGraphs(), Program()
    for number in range(25):
        loss = program.model(program.inputs).mean()
        kept = [loss, loss * 2]
        if number in (4, 24):
            graphs.look(number)
    assert len(kept) == 2 and graphs.found is not None
    assert (graphs.found.nodes_per_step, graphs.found.name) == (0, None)


def test_nodes_of_a_graph_are_counted_once() -> None:
    weight = torch.ones(2, requires_grad=True)
    product = weight * 2
    assert count_nodes([product + product, product]) == 3  # add, multiply, accumulate


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_device_the_allocator_says_what_a_step_adds() -> None:
    with watching() as taps:
        program = Program(nn.Sequential(nn.Linear(4, 1000), nn.Tanh(), nn.Linear(1000, 1)).cuda())
        program.inputs = torch.ones(5000, 4, device="cuda")
        program.step()
        use = taps.memory.facts()
    assert use.activation_bytes is not None and use.activation_bytes >= 20_000_000
    assert use.device_peak_bytes and use.device_reserved_bytes and use.allocation_retries == 0


def test_a_program_without_an_optimizer_leaves_no_more_losses_than_are_wanted() -> None:
    """Small tensors that live on between large ones fragment the heap: 2 MiB a step were seen."""
    model = torch.nn.Linear(4, 1)
    watch = Watch(Run({}, {}), Clock(lambda step: None), loss_limit=8)
    watch.install()
    try:
        model(torch.ones(2, 4)).mean().backward()
        before = _tensors_alive()
        for _ in range(100):
            model(torch.ones(2, 4)).mean().backward()
        assert len(watch.losses()) == 8
        assert _tensors_alive() - before <= 20
    finally:
        watch.remove()


def _tensors_alive() -> int:
    gc.collect()
    return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())
