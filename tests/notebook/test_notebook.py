"""``advisor.tune`` on live objects, in a script and in a real kernel."""

import copy
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient

import advisor
from advisor.base.errors import ArgumentError, SituationError, UsageError
from advisor.notebook.tune import Result

EXAMPLE = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


class Data(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((8,), index / 256), int(index > 128)


def objects() -> dict[str, Any]:
    model = torch.nn.Linear(8, 2)
    return {
        "model": model,
        "dataset": Data(),
        "loss": torch.nn.functional.cross_entropy,
        "optimizer": torch.optim.AdamW(model.parameters()),
        "batch_size": 16,
    }


@pytest.fixture(scope="module")
def result() -> Result:
    torch.manual_seed(3)
    given = objects()
    before = copy.deepcopy([given["model"].state_dict(), given["optimizer"].state_dict()])
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    found: Result = advisor.tune(**given, knobs={"placebo": None}, budget="15s", quiet=True)
    after = [given["model"].state_dict(), given["optimizer"].state_dict()]
    assert str(before) == str(after)
    assert torch.equal(torch_state, torch.get_rng_state())
    assert python_state == random.getstate()
    return found


@pytest.mark.slow
def test_live_objects_are_tuned_and_stay_as_they_were(result: Result) -> None:
    assert result.recommendation.verdict == "keep"
    assert result.data.target.kind == "objects"
    assert len(result.trials()) >= 1


@pytest.mark.slow
def test_a_result_shows_itself_without_script(result: Result) -> None:
    shown = result._repr_mimebundle_()
    assert "Keep what you have" in shown["text/plain"]
    assert "<script" not in shown["text/html"]
    assert "Keep what you have" in shown["text/markdown"]


@pytest.mark.slow
def test_a_result_is_saved_as_a_report(result: Result, tmp_path: Path) -> None:
    files = {path.name for path in result.save(tmp_path / "report")}
    assert files == {"report.html", "result.json", "report.md", "changes.patch"}


def test_what_is_missing_is_told_with_an_example() -> None:
    with pytest.raises(TypeError, match="tune\\(\\) needs dataset, optimizer, loss \\(or step\\)"):
        advisor.tune(model=torch.nn.Linear(2, 2))


def test_an_argument_that_does_not_exist_is_named() -> None:
    with pytest.raises(ArgumentError, match="no argument modle"):
        advisor.tune(modle=torch.nn.Linear(2, 2))


def test_what_cannot_be_copied_to_another_process_is_named(tmp_path: Path) -> None:
    given = objects()
    given["dataset"].file = (tmp_path / "open").open("w")
    with pytest.raises(TypeError, match=r"dataset\.file is an open file"):
        advisor.tune(**given)


def test_a_call_from_a_thread_is_refused() -> None:
    caught: list[BaseException] = []

    def call() -> None:
        try:
            advisor.tune(**objects())
        except SituationError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "from a thread" in str(caught[0])


def test_an_unknown_knob_and_a_budget_without_unit_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown knob 'bacth_size'"):
        advisor.tune(**objects(), knobs={"bacth_size": None})
    with pytest.raises(ValueError, match="no unit in '10'"):
        advisor.tune(**objects(), budget="10")


def _none(model: torch.nn.Module, batch: Any) -> Any:
    return None


def _vector(model: torch.nn.Module, batch: Any) -> Any:
    return model(batch[0]).sum(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "kind", "told"),
    [
        pytest.param(_none, TypeError, "got NoneType", marks=pytest.mark.long),
        (_vector, ValueError, r"got tensor\(shape \[16\]\)"),
    ],
)
def test_a_step_must_return_one_scalar(step: Callable[..., Any], kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        advisor.tune(**{**objects(), "step": step}, budget="30s", quiet=True)


def a_stored_notebook() -> list[Any]:
    """The code of the example as it lies in the repository: never with outputs."""
    cells: list[Any] = nbformat.read(EXAMPLE, as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


@pytest.mark.long
def test_the_example_notebook_runs_in_a_real_kernel(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLE, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace('budget="2m"', 'budget="15s"')
    NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert len(pages) == 2 and all("<svg" in page and "<script" not in page for page in pages)
    assert any("Applied: " in output.get("data", {}).get("text/plain", "") for output in shown)
    assert {path.name for path in (tmp_path / "advisor-report").iterdir()} >= {"report.html", "result.json"}
    assert all(cell.execution_count is None and not cell.outputs for cell in a_stored_notebook())
