"""Evaluations, saves, collections, debugging aids and numbers that are not finite, as a run shows them."""

import gc
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from taps import Program, watching
from torch import nn

from advisor.profiles.hooks.step import evaluations

THIS = Path(__file__).name


def evaluate(program: Program, forwards: int = 3, *, wait: float = 0.0) -> None:
    program.model.eval()
    with torch.no_grad():
        for _ in range(forwards):
            time.sleep(wait)
            program.model(program.inputs)
    program.model.train()


def test_evaluations_between_two_steps_are_one() -> None:
    with watching() as taps:
        program = Program()
        evaluate(program)  # before the first step: not counted
        for number in range(9):
            program.step()
            if number % 4 == 3:
                evaluate(program)
                evaluate(program)
        facts = taps.run_facts()
    assert (facts.evaluations, facts.evaluation_every) == (2, 4.0)
    assert facts.evaluation_location is not None and Path(facts.evaluation_location.file).name == THIS
    assert facts.evaluation_records_graph is False


def test_an_evaluation_is_known_by_its_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluations, "judges", lambda: False)
    with watching() as taps:
        program = Program()
        for samples in (0, 4):
            for _ in range(2):
                program.step()
                evaluate(program)
                taps.clock.loader_samples += samples  # as a loader does that gives a batch
                evaluate(program)
            assert taps.run_facts().evaluation_judges is bool(samples)


def test_what_an_evaluation_waits_for_belongs_to_it_and_a_save_does_not(tmp_path: Path) -> None:
    with watching() as taps:
        program = Program()
        program.step()
        evaluate(program, wait=0.02)
        waited = taps.run_facts().evaluation_s
        torch.save(Slow(0.3), tmp_path / "a.pt")
        program.step()
        torch.save(Slow(0.3), tmp_path / "a.pt")
        evaluate(program)
        facts = taps.run_facts()
    assert 0.06 <= waited < facts.evaluation_s < waited + 0.25
    assert facts.save_s > 0.6


class Slow:
    """Takes its time to be saved."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __reduce__(self) -> tuple[Any, ...]:
        time.sleep(self.seconds)
        return (str, ())


def test_a_teacher_inside_the_step_counts_its_own_forward_alone() -> None:
    with watching() as taps:
        program = Program()
        program.step()
        for _ in range(3):
            time.sleep(0.2)  # for data
            with torch.no_grad():
                target = program.model(program.inputs)
            program.optimizer.zero_grad()
            (program.model(program.inputs) - target).pow(2).mean().backward()
            program.optimizer.step()
        facts = taps.run_facts()
    assert facts.evaluation_s < 0.2 and facts.evaluations == 3


def test_an_evaluation_that_records_a_graph_is_noticed() -> None:
    with watching() as taps:
        program = Program()
        program.step()
        program.model.eval()
        program.model(program.inputs)
        assert taps.run_facts().evaluation_records_graph is True


def test_a_model_that_trains_in_eval_mode_is_not_called_an_evaluation() -> None:
    with watching() as taps:
        program = Program()
        program.model.eval()
        for _ in range(3):
            program.step()
        facts = taps.run_facts()
    assert (facts.evaluations, facts.evaluation_s, facts.evaluation_records_graph) == (0, 0.0, None)


def test_saves_are_counted_by_steps_and_located(tmp_path: Path) -> None:
    with watching() as taps:
        program = Program()
        torch.save(program.model.state_dict(), tmp_path / "start.pt")  # before the first step
        for number in range(7):
            program.step()
            if number % 3 == 2:
                torch.save(program.model.state_dict(), tmp_path / "model.pt")
                save_file(program.model.state_dict(), tmp_path / "model.safetensors")
        facts = taps.run_facts()
    assert (facts.saves, facts.save_every) == (2, 3.0) and facts.save_s > 0
    assert facts.save_location is not None and Path(facts.save_location.file).name == THIS


def test_safetensors_is_left_as_it_was() -> None:
    import safetensors.torch

    before = safetensors.torch.save_file
    with watching():
        assert safetensors.torch.save_file is not before
    assert safetensors.torch.save_file is before


def test_collections_that_python_begins_are_asked_for_by_nobody() -> None:
    with watching() as taps:
        program = Program()
        program.step()
        before, thresholds = taps.run_facts(), gc.get_threshold()
        gc.set_threshold(10, 1, 1)
        kept = [[number] for number in range(2000)]
        gc.set_threshold(*thresholds)
        facts = taps.run_facts()
    assert len(kept) == 2000 and facts.gc_collections > before.gc_collections
    assert facts.gc_asked_s == before.gc_asked_s == 0.0


def test_collections_are_counted_since_the_first_step() -> None:
    with watching() as taps:
        program = Program()
        gc.collect()
        assert taps.run_facts().gc_collections == 0
        program.step()
        gc.disable()
        before = taps.run_facts().gc_collections
        gc.collect()
        gc.enable()
        facts = taps.run_facts()
    assert facts.gc_collections == before + 1 and facts.gc_s > 0
    assert facts.gc_asked_s > 0 and facts.gc_location is not None
    assert Path(facts.gc_location.file).name == THIS
    callbacks = len(gc.callbacks)
    with watching():
        assert len(gc.callbacks) == callbacks + 1
    assert len(gc.callbacks) == callbacks


def test_collections_between_two_steps_are_ours() -> None:
    with watching() as taps:
        program = Program()
        program.step()
        before = taps.run_facts().gc_collections
        taps.clock.between_steps = True
        gc.collect()
        taps.clock.between_steps = False
        assert taps.run_facts().gc_collections == before


def test_anomaly_detection_is_found_where_it_was_switched_on() -> None:
    with watching() as taps:
        program = Program()
        line = test_anomaly_detection_is_found_where_it_was_switched_on.__code__.co_firstlineno + 4
        with torch.autograd.set_detect_anomaly(True):
            program.step()
        facts = taps.run_facts()
    assert facts.debug == ("anomaly",)
    assert facts.debug_location is not None and facts.debug_location.line == line


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_detection_as_a_block_is_found() -> None:
    with watching() as taps, torch.autograd.detect_anomaly():
        Program().step()
        facts = taps.run_facts()
    assert facts.debug == ("anomaly",) and facts.debug_location is not None


def test_a_profiler_counts_only_if_it_runs_in_every_step() -> None:
    with watching() as taps:
        program = Program()
        with torch.profiler.profile():
            for _ in range(5):
                program.step()
            assert taps.run_facts().debug == ("profiler",)
        program.step()
        assert taps.run_facts().debug == ()


def test_gradient_checks_count_once_training_has_begun() -> None:
    def check() -> None:
        torch.autograd.gradcheck(torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True))

    with watching() as taps:
        program = Program()
        check()
        program.step()
        assert taps.run_facts().debug == ()
        check()
        assert taps.run_facts().debug == ("gradcheck",)


def test_variables_of_the_environment_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setitem(os.environ, "TORCH_DISTRIBUTED_DEBUG", "detail")
    with watching() as taps:
        facts = taps.run_facts()
    assert facts.debug == ("launch_blocking", "distributed_debug")
    assert facts.mkldnn_enabled is True and facts.cudnn_benchmark is False


def test_the_first_infinite_loss_is_named() -> None:
    with watching() as taps:
        program = Program(lr=1e30)
        for _ in range(5):
            program.step()
        facts = taps.run_facts()
    losses = taps.losses.values()
    assert facts.nonfinite == "loss" and facts.nonfinite_step is not None
    first = torch.tensor(losses).isfinite().logical_not().nonzero()[0].item()
    assert facts.nonfinite_step == first


def test_an_inspected_step_names_the_module_whose_gradient_is_not_finite() -> None:
    with watching() as taps:
        last = nn.Linear(4, 1)
        program = Program(nn.Sequential(nn.Linear(4, 4), last))
        program.step()
        last.weight.register_hook(lambda gradient: gradient / 0)
        taps.inspect(True)
        program.step()
        taps.inspect(False)
        facts = taps.run_facts()
    assert (facts.nonfinite, facts.nonfinite_step, facts.nonfinite_module) == ("gradient", 1, "1")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_scaler_is_described(dtype: torch.dtype) -> None:
    with watching() as taps:
        program = Program()
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        began = time.perf_counter()
        for number in range(6):
            program.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                loss = program.model(program.inputs).float().mean()
            scaler.scale(loss * (float("inf") if number == 2 else 1)).backward()
            scaler.step(program.optimizer)
            scaler.update()
        spent_ms = 1000 * (time.perf_counter() - began)
        facts = taps.run_facts()
    assert (facts.own_scaler, facts.scaler_updates, facts.scaler_skipped) == (True, 6, 1)
    assert facts.scaler_on_bf16 is (dtype is torch.bfloat16)
    assert facts.scaler_ms is not None and 0 < facts.scaler_ms < spent_ms / 6


def test_an_update_that_skips_on_the_device_itself_is_counted() -> None:
    with watching() as taps:
        program = Program()
        program.optimizer = torch.optim.Adam(program.model.parameters(), fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        for number in range(4):
            program.optimizer.zero_grad()
            loss = program.model(program.inputs).mean()
            scaler.scale(loss * (float("inf") if number == 1 else 1)).backward()
            scaler.step(program.optimizer)
            scaler.update()
        facts = taps.run_facts()
    assert (facts.scaler_updates, facts.scaler_skipped) == (4, 1)


def test_skips_while_the_scale_settles_are_left_out_of_a_long_run() -> None:
    with watching() as taps:
        program = Program()
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        for number in range(110):
            program.optimizer.zero_grad()
            loss = program.model(program.inputs).mean()
            scaler.scale(loss * (float("inf") if number < 3 else 1)).backward()
            scaler.step(program.optimizer)
            scaler.update()
        facts = taps.run_facts()
    assert (facts.scaler_updates, facts.scaler_skipped) == (10, 0)
