import multiprocessing
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import a_gpu_profile, a_loader, a_profile, a_run
from torch.utils.data import DataLoader, TensorDataset

from advisor.tuners.knob import Change, Refused
from advisor.tuners.knobs.multiprocessing_context import MultiprocessingContext

DATA = TensorDataset(torch.zeros(4, 1))
GUARDED = "import torch\nif __name__ == '__main__':\n    train()\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the program that runs, with a guard."""
    path = tmp_path / "train.py"
    path.write_text(GUARDED)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(path), raising=False)
    return path


def arguments_with(value: str, **arguments: Any) -> dict[str, Any]:
    bound: dict[str, Any] = {"dataset": DATA, "num_workers": 1, **arguments}
    MultiprocessingContext().loader(bound, value)
    return bound


@pytest.mark.parametrize("value", ["fork", "forkserver", "spawn"])
def test_a_real_loader_starts_its_workers_like_that(program: Path, value: str) -> None:
    context: Any = DataLoader(**arguments_with(value)).multiprocessing_context
    assert context.get_start_method() == value


def test_without_workers_nothing_is_done() -> None:
    assert arguments_with("spawn", num_workers=0) == {"dataset": DATA, "num_workers": 0}


def test_a_program_without_a_guard_would_train_in_every_worker(program: Path) -> None:
    program.write_text("import torch\ntrain()\n")
    with pytest.raises(Refused, match="no `if __name__"):
        arguments_with("spawn")
    assert arguments_with("fork")["multiprocessing_context"] == "fork"


@pytest.mark.parametrize("text", ["if '__main__' == __name__:\n    train()\n", f"x = 1\n{GUARDED}"])
def test_a_guard_is_found_however_it_is_written(program: Path, text: str) -> None:
    program.write_text(text)
    assert arguments_with("forkserver")["multiprocessing_context"] == "forkserver"


def test_a_program_without_a_file_cannot_be_read_again(program: Path) -> None:
    program.unlink()
    with pytest.raises(Refused, match="no file"):
        arguments_with("spawn")


@pytest.mark.parametrize("name", ["collate_fn", "worker_init_fn"])
def test_what_cannot_be_pickled_cannot_be_sent_to_a_new_process(program: Path, name: str) -> None:
    with pytest.raises(Refused, match=f"{name} cannot be pickled"):
        arguments_with("spawn", **{name: lambda thing: thing})


def test_a_dataset_that_cannot_be_pickled_is_named(program: Path) -> None:
    with pytest.raises(Refused, match="dataset cannot be pickled"):
        arguments_with("forkserver", dataset=[lambda: 1])


class Heavy:
    """Must not be turned into bytes only to see whether that could be done."""

    def __init__(self) -> None:
        self.rows = torch.zeros(2**20)

    def __len__(self) -> int:
        return 4


def test_numbers_of_a_dataset_are_not_copied_for_the_test(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(storage: Any, protocol: int) -> Any:
        raise AssertionError("a tensor was pickled")

    monkeypatch.setattr(torch.Tensor, "__reduce_ex__", fail)
    assert arguments_with("spawn", dataset=Heavy())["multiprocessing_context"] == "spawn"


def test_a_process_that_uses_the_gpu_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(Refused, match="GPU is in use"):
        arguments_with("fork")


def test_the_programs_own_context_comes_first() -> None:
    profile = a_profile(loader=a_loader(num_workers=2, multiprocessing_context="spawn"))
    assert MultiprocessingContext().choices(profile) == ["spawn", "fork", "forkserver"]


def test_the_systems_default_is_present_where_the_program_names_none() -> None:
    profile = a_profile(loader=a_loader(num_workers=2))
    assert MultiprocessingContext().choices(profile)[0] == multiprocessing.get_all_start_methods()[0]


def test_fork_is_not_proposed_on_a_gpu_but_kept_where_it_is_used() -> None:
    spawning = a_gpu_profile(loader=a_loader(num_workers=2, multiprocessing_context="spawn"))
    assert MultiprocessingContext().choices(spawning) == ["spawn", "forkserver"]
    with pytest.raises(Refused, match="must not be forked"):
        MultiprocessingContext().check("fork", spawning)
    forking = a_gpu_profile(loader=a_loader(num_workers=2, multiprocessing_context="fork"))
    assert MultiprocessingContext().choices(forking) == ["fork", "forkserver", "spawn"]
    MultiprocessingContext().check("fork", forking)


def test_the_reason_reaches_the_run(program: Path) -> None:
    run = a_run(multiprocessing_context=MultiprocessingContext())
    run.configure({"multiprocessing_context": "spawn"})
    run.loader({"dataset": DATA, "num_workers": 1, "collate_fn": lambda items: items})
    assert "collate_fn cannot be pickled" in run.refused["multiprocessing_context"]


def test_without_a_loader_there_are_no_workers() -> None:
    with pytest.raises(Refused, match="no DataLoader"):
        MultiprocessingContext().choices(a_profile())


def test_what_the_user_writes() -> None:
    change = Change('DataLoader(..., multiprocessing_context="forkserver")')
    assert MultiprocessingContext().change("forkserver") == change
