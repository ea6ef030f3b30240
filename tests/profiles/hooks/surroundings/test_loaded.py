"""Checkpoints from which a program resumes are known from models that it only loads."""

from pathlib import Path
from typing import Any

import pytest
import torch

from advisor.profiles.hooks.surroundings.loaded import Loaded


@pytest.mark.parametrize(
    ("held", "resumes"),
    [
        ({"model": {}, "epoch": 3}, True),
        ({"model": {}, "optimizer": {}}, True),
        ({"0.weight": torch.zeros(2)}, False),
        ([1, 2], False),
    ],
)
def test_what_tells_a_place_of_training_is_noted(
    held: Any, resumes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "last.pt"
    torch.save(held, path)
    for owner in (torch, torch.serialization):
        monkeypatch.setattr(owner, "load", owner.load)  # put back afterwards
    loaded = Loaded()
    loaded.install(torch)
    torch.load(path)
    with path.open("rb") as file:
        torch.load(file)
    assert loaded.files == ([str(path)] * 2 if resumes else [])
