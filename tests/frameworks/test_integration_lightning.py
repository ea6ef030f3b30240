"""Lightning: its loop profiled by a callback, and its modules as workloads with the same numbers."""

import builtins
import importlib
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from loops import state
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import advisor
from advisor.base.errors import ArgumentError, UsageError
from advisor.frameworks.lightning import ProfileCallback
from advisor.tuners.trial.loop import train
from advisor.tuners.trial.workload_transfer import as_workload, pack, unpack
from advisor.workloads.lightning import TrainingStep

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS = 6


class Classifier(pl.LightningModule):
    """A frozen part, a scheduler per update, dropout off, and a loss that reads ``batch_idx``."""

    def __init__(self, scheduled: str = "step") -> None:
        super().__init__()
        self.scheduled = scheduled
        self.frozen = nn.BatchNorm1d(8).eval().requires_grad_(False)
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        inputs, target = batch
        loss = nn.functional.cross_entropy(self.net(self.frozen(inputs)), target) * (1 + batch_idx / 10)
        self.log("loss", loss)
        self.losses.append(loss.item())
        return {"loss": loss, "other": 1}

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.05)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": self.scheduled}}


class Data(pl.LightningDataModule):
    def setup(self, stage: str) -> None:
        torch.manual_seed(1)
        self.data = TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))

    def train_dataloader(self) -> Any:
        return DataLoader(self.data, batch_size=16)


def a_trainer(folder: Path, **options: Any) -> pl.Trainer:
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return pl.Trainer(
        **{
            "accelerator": "cpu", "devices": 1, "max_epochs": 100, "max_steps": STEPS,
            "enable_checkpointing": False, "default_root_dir": folder, **quiet, **options,
        }
    )  # fmt: skip


def a_module(**options: Any) -> Classifier:
    torch.manual_seed(0)
    return Classifier(**options)


def losses_of(workload: advisor.Workload, batches: int) -> list[float]:
    """The losses that the reference loop computes."""
    seen: list[float] = []
    step = workload.step
    assert step is not None

    def noted(model: nn.Module, batch: Any) -> torch.Tensor:
        loss = step(model, batch)
        seen.append(loss.item())
        return loss

    arguments = {name: getattr(workload, name) for name in advisor.Workload.names()}
    train(advisor.Workload(**{**arguments, "step": noted}), "cpu", batches)
    return seen


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ({}, {}),
        ({"scheduled": "epoch"}, {}),
        ({}, {"accumulate_grad_batches": 2, "gradient_clip_val": 0.1}),
        ({}, {"precision": "bf16-mixed"}),
    ],
    ids=["a scheduler per update", "a scheduler per epoch", "accumulated and clipped", "in bfloat16"],
)
def test_the_first_losses_are_those_of_fit(
    tmp_path: Path, module: dict[str, Any], options: dict[str, Any]
) -> None:
    theirs, trainer = a_module(**module), a_trainer(tmp_path, **options)
    workload = advisor.Workload.from_lightning(theirs, Data(), trainer=trainer)
    before = {name: value.clone() for name, value in theirs.state_dict().items()}
    ours = losses_of(workload, STEPS)
    assert all(torch.equal(value, before[name]) for name, value in theirs.state_dict().items())
    trainer.fit(theirs, Data())
    assert len(ours) == STEPS and ours == pytest.approx(theirs.losses[:STEPS], rel=1e-6)
    assert len(set(ours)) == STEPS  # it learns


class WithData(Classifier):
    """Brings its own data, as many do."""

    def setup(self, stage: str) -> None:
        self.data = TensorDataset(torch.randn(40, 8), torch.arange(40) % 3)

    def train_dataloader(self) -> Any:
        return DataLoader(self.data, 8)


def test_a_module_that_brings_its_data_needs_no_other() -> None:
    workload = advisor.Workload.from_lightning(WithData())
    assert workload.batch_size == 8 and len(losses_of(workload, 5)) == 5
    with pytest.raises(TypeError, match="no train_dataloader, and no data"):
        advisor.Workload.from_lightning(a_module())


def test_a_workload_of_lightning_can_be_shipped_and_keeps_parts_in_eval_mode() -> None:
    workload = advisor.Workload.from_lightning(a_module(), DataLoader(TensorDataset(torch.ones(8, 8)), 4))
    arguments = {name: getattr(workload, name) for name in advisor.Workload.names()}
    shipped = unpack(pack(arguments))
    model = shipped.model()
    assert shipped.optimizer is not None
    optimizer = shipped.optimizer(model.parameters())
    assert (
        isinstance(model, TrainingStep)
        and optimizer.param_groups[0]["params"][0] is model.module.net[0].weight
    )
    assert model.train().module.net.training and not model.module.frozen.training
    assert as_workload(arguments).batch_size == 4


def test_a_module_that_was_fitted_is_carried_over_without_its_trainer(tmp_path: Path) -> None:
    module = a_module()
    a_trainer(tmp_path).fit(module, Data())
    workload = advisor.Workload.from_lightning(module, Data())
    model: Any = workload.model()
    assert model.module._trainer is None and module.trainer is not None


class Manual(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False


class Several(Classifier):
    def configure_optimizers(self) -> Any:
        return [
            torch.optim.SGD(self.net[0].parameters(), lr=1),
            torch.optim.SGD(self.net[2].parameters(), lr=1),
        ]


class Plateau(Classifier):
    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=1)
        return [optimizer], [torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)]


class Hooked(Classifier):
    def on_before_optimizer_step(self, optimizer: Any) -> None:
        raise AssertionError


class Asking(Classifier):
    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1 / self.trainer.estimated_stepping_batches)


def weighted() -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.ones(8, 8)), 4, sampler=WeightedRandomSampler([1.0] * 8, 8))


@pytest.mark.parametrize(
    ("module", "data", "told"),
    [
        (Manual, Data, r"Manual optimizes by itself \(automatic_optimization=False\)"),
        (Several, Data, "configure_optimizers gives 2 optimizers; a workload has one"),
        (Plateau, Data, "the learning rate follows a metric"),
        (Hooked, Data, "Hooked has its own on_before_optimizer_step"),
        (Asking, Data, "configure_optimizers reads self.trainer"),
        (Classifier, weighted, "the order of the data is made by WeightedRandomSampler"),
        (Classifier, lambda: [1, 2], "the training data come from a list, not from one DataLoader"),
        (nn.Identity, Data, "module is a Identity, not a LightningModule"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_with_its_reason(
    module: Callable[[], Any], data: Callable[[], Any], told: str
) -> None:
    with pytest.raises(TypeError, match=told) as caught:
        advisor.Workload.from_lightning(module(), data())
    assert isinstance(caught.value, ArgumentError) and caught.value.hint


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"precision": "16-true"}, "precision='16-true'"),
        ({"gradient_clip_val": 1, "gradient_clip_algorithm": "value"}, "clipped by value"),
    ],
)
def test_settings_of_a_trainer_that_cannot_be_carried_over_are_refused(
    tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ArgumentError, match=told):
        advisor.Workload.from_lightning(a_module(), Data(), trainer=a_trainer(tmp_path, **options))


def test_gradients_that_would_be_clipped_together_with_others_are_refused(tmp_path: Path) -> None:
    module, trainer = a_module(), a_trainer(tmp_path, gradient_clip_val=0.1)
    module.frozen.requires_grad_(True)
    with pytest.raises(ArgumentError, match=r"gradients of frozen\.weight, frozen\.bias would count"):
        advisor.Workload.from_lightning(module, Data(), trainer=trainer)


def test_a_callback_profiles_fit_and_writes_the_report(tmp_path: Path) -> None:
    before, out = state(), tmp_path / "report"
    profiled = ProfileCallback(steps=6, warmup=1, out=out)
    a_trainer(tmp_path, max_steps=20, callbacks=[profiled]).fit(a_module(), Data())
    assert state() == before
    found = profiled.result
    assert found.data.profile.steps >= 2 and found.data.profile.phases_ms["backward"] > 0
    assert {path.name for path in out.iterdir()} == {"report.html", "result.json", "report.md"}


def test_a_training_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    class Failing(Classifier):
        def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 2:
                raise ZeroDivisionError
            return super().training_step(batch, batch_idx)

    before, original = state(), builtins.print
    profiled = ProfileCallback()
    with pytest.raises(ZeroDivisionError):
        a_trainer(tmp_path, callbacks=[profiled]).fit(Failing(), Data())
    assert state() == before and builtins.print is original
    with pytest.raises(RuntimeError, match="nothing was profiled"):
        _ = profiled.result


def test_a_training_too_short_to_profile_ends_as_ever_with_a_warning(tmp_path: Path) -> None:
    profiled = ProfileCallback(warmup=10)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        a_trainer(tmp_path, max_steps=3, callbacks=[profiled]).fit(a_module(), Data())
    assert any("no profile was made: 3 steps, 30 needed" in str(each.message) for each in said)
    with pytest.raises(UsageError, match="3 steps, 30 needed"):
        _ = profiled.result


@pytest.mark.parametrize(
    ("blocked", "module", "extra"),
    [
        ("lightning", "advisor.frameworks.lightning", "/path/to/advisor[lightning]"),
        ("lightning", "advisor.workloads.lightning", "/path/to/advisor[lightning]"),
        ("transformers", "advisor.frameworks.huggingface", "/path/to/advisor[huggingface]"),
        ("transformers", "advisor.workloads.huggingface", "/path/to/advisor[huggingface]"),
    ],
)
def test_without_the_framework_one_line_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, blocked: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, blocked, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ImportError) as caught:
        importlib.import_module(module)
    assert f"pip install '{extra}'" in str(caught.value) and "\n" not in str(caught.value)


def test_steps_out_of_range_are_refused_before_the_training() -> None:
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        ProfileCallback(steps=0)
