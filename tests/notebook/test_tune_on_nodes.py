"""``advisor.tune(on=...)``: the engine of the command's ``--on``, with objects that travel to its nodes."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import advisor
from advisor.base.errors import UsageError
from advisor.base.settings import Progress, Settings
from advisor.tuners.benches.messages import Open, understood, written


class Called(Exception):
    """In place of a run."""


def settings_of(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Settings:
    """Settings of the run that a call begins."""
    given: list[Settings] = []

    def run(settings: Settings, progress: Progress) -> None:
        given.append(settings)
        raise Called

    monkeypatch.setattr("advisor.runs.tune.tune", run)
    model = nn.Linear(8, 2)
    with pytest.raises(Called):
        advisor.tune(
            model=model,
            dataset=TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))),
            loss=nn.functional.cross_entropy,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            batch_size=16,
            quiet=True,
            **options,
        )
    return given[0]


def test_further_nodes_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_of(monkeypatch, on="ray").on == "ray"
    assert settings_of(monkeypatch).on == "here"


def test_an_engine_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="on='dask' is not one of 'here', 'ray', 'slurm'"):
        advisor.tune(model=nn.Linear(1, 1), dataset=[0], optimizer=1, loss=1, batch_size=1, on="dask")


def test_objects_reach_another_node_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(monkeypatch, on="slurm")
    assert settings.target.payload
    assert understood(written(Open(settings, "/here"))) == Open(settings, "/here")
