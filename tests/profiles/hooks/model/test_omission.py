"""A part of every step can be left out between two steps, and comes back exactly."""

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from taps import Program, Taps, equal, watching
from torch import nn
from torch._C._distributed_c10d import FileStore, GradBucket

from advisor.profiles.hooks.model.model_facts import parallel_kind


def test_without_updates_weights_stay_and_hooks_still_run() -> None:
    with watching() as taps:
        program = Program()
        program.step()
        before, state = program.weights(), taps.optimizers.facts[0].state_bytes
        taps.omissions.omit("optimizer")
        program.step()
        program.step()
        assert equal(program.weights(), before) and len(taps.steps) == 3
        taps.omissions.omit(None)
        program.step()
        assert not equal(program.weights(), before)
        assert taps.optimizers.facts[0].state_bytes == state


@pytest.mark.parametrize("part", ["optimizer", "backward"])
def test_after_a_part_was_left_out_training_goes_on_where_it_was(part: str) -> None:
    bare = Program()
    expected = [bare.step() for _ in range(5)]
    with watching() as taps:
        program = Program()
        losses = [program.step(), program.step()]
        taps.omissions.omit(part)
        program.step()
        program.step()
        taps.omissions.omit(None)
        losses += [program.step() for _ in range(3)]
    assert losses == expected


def test_a_scheduler_wrapped_around_the_step_does_not_save_the_update() -> None:
    with watching() as taps:
        program = Program()
        schedule = torch.optim.lr_scheduler.StepLR(program.optimizer, 10)
        program.step()
        schedule.step()
        before = program.weights()
        taps.omissions.omit("optimizer")
        program.step()
        assert equal(program.weights(), before)


def test_an_optimizer_that_calls_its_base_class_is_left_out_once_and_whole() -> None:
    class Clipped(torch.optim.SGD):
        def step(self, closure=None):  # type: ignore[no-untyped-def]  # of the base class
            return super().step(closure)

    with watching() as taps:
        program = Program()
        torch.optim.SGD(program.model.parameters(), lr=0.1)  # the base class has its hooks now
        program.optimizer = Clipped(program.model.parameters(), lr=0.1)
        program.step()
        before = program.weights()
        taps.omissions.omit("optimizer")
        program.step()
        assert equal(program.weights(), before)
        taps.omissions.omit(None)
        program.step()
        assert not equal(program.weights(), before)


def test_every_function_that_torch_calls_for_an_update_is_put_back() -> None:
    with watching() as taps:
        program = Program()
        program.step()
        step: Any = torch.optim.SGD.step
        closure = step.__closure__
        before = [cell.cell_contents for cell in closure]
        taps.omissions.omit("optimizer")
        assert [cell.cell_contents for cell in closure] != before
        taps.omissions.omit("backward")
        taps.omissions.omit(None)
        assert [cell.cell_contents for cell in closure] == before


def test_without_backward_gradients_of_the_last_step_stay_readable() -> None:
    with watching() as taps:
        program = Program()
        program.step()
        taps.omissions.omit("backward")
        program.step()
        program.model.zero_grad()
        assert all(parameter.grad is not None for parameter in program.model.parameters())
        assert len(taps.steps) == 2 and "backward" not in taps.steps[-1].phases_ns
        taps.omissions.omit(None)
        program.model.zero_grad()
        assert all(parameter.grad is None for parameter in program.model.parameters())


def test_a_scaler_does_not_stop_a_program_without_backward() -> None:
    with watching() as taps:
        program = Program()
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)

        def step() -> None:
            program.optimizer.zero_grad()
            scaler.scale(program.model(program.inputs).mean()).backward()
            scaler.unscale_(program.optimizer)
            torch.nn.utils.clip_grad_norm_(program.model.parameters(), 1.0)
            scaler.step(program.optimizer)
            scaler.update()

        step()
        before = program.weights()
        taps.omissions.omit("backward")
        step()
        step()
        assert equal(program.weights(), before)
        taps.omissions.omit(None)
        step()
        assert not equal(program.weights(), before)


def refusal(taps: Taps, part: str) -> str:
    with pytest.raises(ValueError) as caught:
        taps.omissions.omit(part)
    assert taps.omissions.part is None
    return str(caught.value)


@pytest.mark.parametrize("part", ["optimizer", "backward"])
def test_an_optimizer_with_a_closure_cannot_be_left_out(part: str) -> None:
    with watching() as taps:
        program = Program()
        optimizer = torch.optim.LBFGS(program.model.parameters(), max_iter=2)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = program.model(program.inputs).mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        assert refusal(taps, part) == "the optimizer calls a closure"


def test_updates_inside_backward_cannot_be_left_out() -> None:
    with watching() as taps:
        weight = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
        weight.sum().backward()
        assert refusal(taps, "optimizer") == "updates run inside backward"


def test_what_a_program_does_not_have_cannot_be_left_out() -> None:
    with watching() as taps:
        program = Program()
        assert refusal(taps, "optimizer") == "the program uses no torch optimizer"
        program.step()
        assert refusal(taps, "communication") == "no model is wrapped in DistributedDataParallel"
        assert refusal(taps, "debug") == "anomaly detection is off"
        assert refusal(taps, "loader") == "loader is no part of a step that can be left out"


def test_anomaly_detection_stays_off_however_the_program_asks_for_it() -> None:
    originals = torch.set_anomaly_enabled, torch.is_anomaly_enabled
    seen: list[bool] = []
    with watching() as taps:
        program = Program()
        program.model.register_forward_hook(lambda *_: seen.append(originals[1]()))
        with torch.autograd.set_detect_anomaly(True):
            program.step()
            taps.omissions.omit("debug")
            program.step()
            with torch.autograd.detect_anomaly():
                program.step()
            assert torch.is_anomaly_enabled()  # what the program reads
            taps.omissions.omit(None)
            program.step()
        assert not torch.is_anomaly_enabled()
    assert seen == [True, False, False, True]
    assert (torch.set_anomaly_enabled, torch.is_anomaly_enabled) == originals


def test_graphs_are_skipped_and_kept() -> None:
    compiled: list[int] = []
    ran: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        compiled.append(1)

        def run(*args: torch.Tensor) -> object:
            ran.append(1)
            return graph(*args)

        return run

    torch._dynamo.reset()
    with watching() as taps:
        program = Program()
        layers = program.model
        forward = torch.compile(lambda inputs: layers(inputs) * 2, backend=backend)
        program.model = nn.Module()
        program.model.forward = forward
        program.step()
        before = len(ran)
        taps.omissions.omit("graph")
        program.step()
        assert before > 0 and len(ran) == before
        taps.omissions.omit(None)
        program.step()
    assert len(ran) == 2 * before and len(compiled) == before


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of one process."""
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(os.path.join(folder, "store"), 1)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        yield
        torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("part", ["communication", "backward"])
def test_gradients_are_reduced_no_more_until_told_so(part: str) -> None:
    reduced: list[int] = []

    def hook(state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        reduced.append(1)
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    with watching() as taps:
        model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1), static_graph=True)
        model.register_comm_hook(None, hook)
        program = Program(model)
        program.step()
        program.step()
        before = len(reduced)
        taps.omissions.omit(part)
        program.step()
        program.step()
        assert before > 0 and len(reduced) == before
        taps.omissions.omit(None)
        program.step()
        assert len(reduced) > before and model.require_backward_grad_sync
        (facts,) = taps.roots.facts(taps.optimizers.without_gradient)
    assert (facts.name, facts.parallel, facts.static_graph) == ("Linear", "DistributedDataParallel", True)
    assert (facts.find_unused_parameters, facts.unused_parameters) == (False, 0)
    assert parallel_kind(model) == "DistributedDataParallel" and parallel_kind(nn.Linear(1, 1)) is None
