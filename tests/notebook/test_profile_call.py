"""What ``advisor.profile`` takes and refuses, and its form for live objects."""

from typing import Any

import pytest
import torch
from loops import Net, Program, a_torch_profiler, state
from torch import nn
from torch.utils.data import TensorDataset

import advisor
from advisor.base.errors import ArgumentError, UsageError
from advisor.report.profile_result import ProfileResult


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": -3}, "steps must be"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"steps": True}, "steps must be a whole number"),
        ({"wait": -1}, "wait must be a whole number of at least 0, got -1"),
        ({"warmup": -1}, "warmup must be a whole number of at least 0, got -1"),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        advisor.profile(**options)


def test_a_loop_without_marks_is_refused_at_its_end() -> None:
    before = state()
    told = r"p.step\(\) was not called\n  hint: call it once per training step"
    with pytest.raises(RuntimeError, match=told), advisor.profile():
        Program().step(torch.ones(4, 4))
    assert state() == before


def test_a_step_outside_the_block_is_refused() -> None:
    p = advisor.profile(steps=3, warmup=0)
    with pytest.raises(RuntimeError, match="outside the block"):
        p.step()
    with p:
        Program().train(p, 3)
    with pytest.raises(RuntimeError, match="outside the block"):
        p.step()
    with pytest.raises(RuntimeError, match="used before"), p:
        pass


def test_a_profile_within_another_is_refused_and_the_outer_one_goes_on() -> None:
    program = Program()
    with advisor.profile(steps=4, warmup=0) as p:
        with pytest.raises(RuntimeError, match=r"another profiler is active\n  hint: end it first"):
            advisor.profile().__enter__()
        program.train(p, 6)
    assert p.result.data.profile.steps > 0


def test_an_active_torch_profiler_is_refused() -> None:
    before = state()
    with a_torch_profiler(), pytest.raises(RuntimeError, match="another profiler is active"):
        advisor.profile().__enter__()
    assert state() == before


def a_workload() -> dict[str, Any]:
    model = Net()
    return {
        "model": model,
        "dataset": TensorDataset(torch.randn(400, 4), torch.randn(400, 2)),
        "loss": nn.functional.mse_loss,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "batch_size": 4,
    }


@pytest.mark.slow
def test_live_objects_are_profiled_in_another_process_and_stay_as_they_were() -> None:
    given = a_workload()
    before = {name: value.clone() for name, value in given["model"].state_dict().items()}
    seed, others = torch.get_rng_state(), state()
    found = advisor.profile(**given, budget="5s", quiet=True)
    after = given["model"].state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert torch.equal(seed, torch.get_rng_state()) and state() == others
    assert isinstance(found, ProfileResult) and found.data.target.kind == "objects"
    assert "Time of a step" in repr(found)


@pytest.mark.long
def test_live_objects_are_replayed_where_the_budget_allows_it() -> None:
    found = advisor.profile(**a_workload(), budget="40s", quiet=True)
    assert isinstance(found, ProfileResult) and found.data.profile.replays


@pytest.mark.long
def test_a_workload_is_profiled_as_tune_takes_it() -> None:
    given = a_workload()
    workload = advisor.Workload(
        model=Net,
        dataset=lambda: given["dataset"],
        loss=given["loss"],
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        batch_size=4,
    )
    assert advisor.profile(workload, budget="5s", quiet=True).data.profile.steps > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"model": nn.Linear(2, 2)}, r"profile\(\) needs dataset, optimizer, loss \(or step\)"),
        ({"modle": nn.Linear(2, 2)}, r"profile\(\) has no argument modle"),
        ({"budget": "2m"}, r"profile\(\) needs model, dataset, optimizer"),
        ({**a_workload(), "wait": 3}, "wait belongs to a loop of your own"),
    ],
)
def test_arguments_that_are_missing_or_do_not_exist_are_named(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        advisor.profile(**arguments)


def test_steps_of_a_workload_are_checked_too() -> None:
    with pytest.raises(UsageError, match="0 is too small"):
        advisor.profile(**a_workload(), steps=0)
