"""``%%advise`` and ``%advise`` in a real shell, and once in a real kernel."""

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from traitlets.config import Config

from advisor.notebook.magics import read_options
from advisor.report.profile_result import ProfileResult

SETUP = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=4)
def train(steps):
    for step, (batch,) in enumerate(loader):
        if step == steps:
            break
        model(batch).pow(2).mean().backward()
        sgd.step()
        sgd.zero_grad()
    return "trained"
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # the shell puts its own there
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    run(shell, "%load_ext advisor")
    run(shell, SETUP)
    yield shell
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, cell: str) -> Any:
    done = shell.run_cell(cell)
    done.raise_error()
    return done.result


def test_a_cell_that_trains_is_profiled_and_keeps_its_variables(shell: InteractiveShell) -> None:
    result = run(shell, "%%advise --steps=10\nsaid = train(40)\n")
    assert isinstance(result, ProfileResult)
    assert result.data.profile.steps >= 5 and {finding.state for finding in result.findings} > {"passed"}
    assert shell.user_ns["said"] == "trained"


def test_a_statement_is_profiled_and_its_result_can_be_kept(shell: InteractiveShell) -> None:
    run(shell, "found = %advise --steps 8 --warmup 1 train(9)")
    assert shell.user_ns["found"].data.profile.notes == []


def test_a_last_expression_is_shown_before_the_result(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "%%advise --steps=6\ntrain(9)")
    shown = capsys.readouterr().out
    assert shown.index("'trained'") < shown.index("Time of a step")
    run(shell, "%%advise --steps=6\ntrain(9);")
    assert "'trained'" not in capsys.readouterr().out


def test_a_cell_may_hold_magics_and_end_early(shell: InteractiveShell) -> None:
    result = run(shell, "%%advise\ntrain(8)\n%time 1 + 1\n")
    assert result.data.profile.notes == ["the loop ended after 8 of 23 steps"]


def test_what_a_cell_raises_passes_and_the_taps_come_off(shell: InteractiveShell) -> None:
    original = builtins.print
    with pytest.raises(ZeroDivisionError):
        run(shell, "%%advise\ntrain(5)\n1 / 0")
    assert builtins.print is original
    assert isinstance(run(shell, "%%advise --steps=5\ntrain(10)"), ProfileResult)


def test_an_interrupt_shows_what_was_seen_and_the_taps_come_off(shell: InteractiveShell) -> None:
    original = builtins.print
    result = run(shell, "%%advise\ntrain(12)\nraise KeyboardInterrupt")
    assert result.data.budget.stopped_by == "interrupted"
    assert result.data.profile.notes == ["the loop ended after 12 of 23 steps"]
    assert builtins.print is original
    with pytest.raises(UsageError, match="2 steps, 23 needed"):
        run(shell, "%%advise\ntrain(2)\nraise KeyboardInterrupt")


def test_after_enough_steps_the_rest_of_a_cell_runs_unwatched(shell: InteractiveShell) -> None:
    shell.user_ns["plain"] = builtins.print
    run(shell, "import builtins\n%advise --steps=4 --warmup=0 train(6); same = builtins.print is plain")
    assert shell.user_ns["same"]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("%%advise\nx = 1", "no training step was seen"),
        ("%%advise --warmup=9\ntrain(4)", r"4 steps, 29 needed \(warm-up 9 \+ 20\)"),
        ("%%advise --steps=0\ntrain(4)", "steps must be a whole number of at least 1, got 0"),
        ("%%advise train(4)\ntrain(4)", "cannot stand behind"),
        ("%advise", "needs a statement"),
        ("%advise --budget=2 train(4)", "unknown option --budget=2"),
        ("%advise --steps=many train(4)", "--steps must be a whole number, got many"),
    ],
)
def test_what_cannot_be_profiled_is_said_in_one_line(shell: InteractiveShell, cell: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run(shell, cell)


def test_loading_twice_and_reloading_do_no_harm(shell: InteractiveShell) -> None:
    run(shell, "%load_ext advisor")
    run(shell, "%reload_ext advisor")
    assert isinstance(run(shell, "%advise --steps=4 train(8)"), ProfileResult)
    run(shell, "%unload_ext advisor")
    assert shell.find_line_magic("advise") is None and shell.find_cell_magic("advise") is None


def test_options_stand_in_front_of_the_statement() -> None:
    assert read_options(" --steps=5 --wait 2 train(x, k=1) --x") == (
        {"steps": 5, "wait": 2},
        "train(x, k=1) --x",
    )


@pytest.mark.long
def test_in_a_real_kernel_the_result_is_html_and_an_error_of_the_cell_its_own(tmp_path: Path) -> None:
    cells = ("%load_ext advisor", SETUP, "%%advise\ntrain(40);", "%%advise\ntrain(5)\n1 / 0")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", allow_errors=True,
        resources={"metadata": {"path": tmp_path}},
    ).execute()  # fmt: skip
    shown, raised = [output for cell in notebook.cells for output in cell.outputs]
    assert (shown.output_type, raised.output_type) == ("execute_result", "error")
    html = shown.data["text/html"]
    assert "Time of a step" in html and "<script" not in html and len(html) < 200_000
    assert "text/markdown" in shown.data
    assert raised.ename == "ZeroDivisionError"
