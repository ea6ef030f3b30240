"""Wrong calls from Python: refused before anything is started, each with its message and a hint."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from warm import Warm

import advisor
from advisor.base.errors import AdvisorError, SituationError


def given(**changes: Any) -> dict[str, Any]:
    model = nn.Linear(8, 2)
    arguments = {
        "model": model,
        "dataset": TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))),
        "loss": nn.functional.cross_entropy,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "batch_size": 16,
    }
    return {**arguments, **changes}


class Locked(Dataset[Any]):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return 64


def locked() -> Callable[[Any], Any]:
    """A closure over a lock."""
    lock = threading.Lock()
    return lambda items: (lock, items)


def batches() -> Iterator[int]:
    yield from range(3)


@pytest.mark.parametrize("function", ["tune", "profile"])
@pytest.mark.parametrize(
    ("arguments", "kind", "told", "hint"),
    [
        ({"model": nn.Linear(2, 2).eval()}, TypeError, "needs dataset, optimizer, loss", "advisor.Workload("),
        (given(loss=None), TypeError, r"needs loss \(or step\)", "batch_size=64"),
        (given(dataset=None), TypeError, "needs dataset", "dataset=lambda: Data()"),
        (given(loss=None, step=None, modle=1), TypeError, "has no argument modle", "advisor.Workload("),
        (
            given(dataset=Locked()),
            TypeError,
            r"cannot start it in another process: dataset\.lock is a _thread\.lock",
            "open it in `__getitem__` or in a factory",
        ),
        (
            given(collate=locked()),
            TypeError,
            "cannot start it in another process: collate",
            "in a factory",
        ),
        (given(dataset=batches()), ValueError, "dataset is a generator, which is used up", "give a Dataset"),
        (given(dataset=TensorDataset(torch.zeros(0, 8))), ValueError, "has 0 items, fewer than", "batch"),
        (given(batch_size=65), ValueError, "has 64 items, fewer than one batch of 65", "smaller"),
        (given(budget="10"), ValueError, "no unit in '10'", "10m"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_refused_before_anything_starts(
    function: str, arguments: dict[str, Any], kind: type[Exception], told: str, hint: str
) -> None:
    with pytest.raises(kind, match=told) as caught:
        getattr(advisor, function)(**arguments)
    assert isinstance(caught.value, AdvisorError) and hint in str(caught.value.hint)


class Undefined(nn.Module):
    """A loss that is no number."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return output.sum() * self.value


@pytest.mark.long
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_from_the_first_step_on_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"step must return one finite scalar .*, got -?(nan|inf)") as caught:
        advisor.tune(**given(loss=Undefined(value), budget="60s"))
    assert isinstance(caught.value, AdvisorError)


def test_a_running_event_loop_is_named() -> None:
    async def call() -> None:
        advisor.tune(**given())

    with pytest.raises(RuntimeError, match=r"tune\(\) was called in a running event loop") as caught:
        asyncio.run(call())
    assert "before asyncio.run()" in str(caught.value)


class Calling(Dataset[Any]):
    """Calls a function of advisor in a loader worker."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> str:
        try:
            self.call(**given())
        except SituationError as error:
            return str(error)
        return "not refused"


@pytest.mark.parametrize("function", ["tune", "profile"])
def test_a_forked_loader_worker_is_named(function: str) -> None:
    loader = DataLoader(Calling(getattr(advisor, function)), batch_size=None, num_workers=1)
    (said,) = list(loader)
    assert said.startswith(f"{function}() was called inside a DataLoader worker")


UNGUARDED = """
import multiprocessing, torch, advisor
if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    child = multiprocessing.Process(target=print)
    child.start()
    child.join()
    raise SystemExit(child.exitcode)
net = torch.nn.Linear(2, 2)
advisor.tune(
    model=net, dataset=[1], loss=torch.nn.functional.mse_loss,
    optimizer=torch.optim.SGD(net.parameters(), lr=1),
)
"""


def test_a_script_without_the_guard_is_told_to_write_it(warm: Warm, tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(UNGUARDED)
    done = warm.run(script, cwd=tmp_path)
    assert done.returncode != 0
    assert "tune() was called again by a process that only imports this script" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr.split("hint:")[1]


def _detached(model: Any, batch: Any) -> Any:
    return model(batch[0]).sum().detach()


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"step": _detached}, ValueError, "step must return .* got one without a graph"),
        ({"model": nn.Linear(9, 2)}, RuntimeError, "the baseline step fails: RuntimeError: mat1 and mat2"),
    ],
)  # fmt: skip
def test_what_a_step_does_wrong_is_told_as_the_user_s_own_exception(
    changes: dict[str, Any], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told) as caught:
        advisor.tune(**given(**changes), budget="30s", quiet=True)
    if kind is RuntimeError:
        assert "mat1 and mat2 shapes cannot be multiplied" in str(caught.value.__cause__)
        assert caught.value.code == "user_error"  # type: ignore[attr-defined]  # of a TargetError
