"""Hugging Face: its loop profiled by a callback, and a Trainer as a workload with the same numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from loops import state
from torch import nn
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import advisor
from advisor.base.errors import ArgumentError, SituationError
from advisor.frameworks.huggingface import ProfileCallback
from advisor.tuners.trial.loop import train
from advisor.tuners.trial.workload_transfer import pack, unpack

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS = 5
NO_DROPOUT: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Tokens(Dataset[dict[str, torch.Tensor]]):
    """Rows of tokens with labels; of some rows a part is padding that the loss leaves out."""

    def __init__(self, classes: int | None = None) -> None:
        made = torch.Generator().manual_seed(3)
        self.ids = torch.randint(50, (40, 12), generator=made)
        self.classes = classes

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = self.ids[index]
        if self.classes is not None:
            return {"input_ids": ids, "labels": ids[0] % self.classes}
        labels = ids.clone()
        labels[: index % 7] = -100
        return {"input_ids": ids, "labels": labels}


def a_gpt() -> Any:
    torch.manual_seed(0)
    dropped: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2, **dropped)
    )


def a_bert() -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "num_labels": 3,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    return BertForSequenceClassification(BertConfig(vocab_size=50, **sizes, **NO_DROPOUT))


class Noting(TrainerCallback):
    """Keeps the losses that the Trainer logs."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **named: Any) -> None:
        if "loss" in logs:
            self.losses.append(float(logs["loss"]))


def a_trainer(folder: Path, kind: type[Trainer] = Trainer, *, model: Any = None, **options: Any) -> Any:
    chosen = {
        name: options.pop(name)
        for name in ("optimizers", "compute_loss_func", "callbacks")
        if name in options
    }
    settings: dict[str, Any] = {
        "output_dir": str(folder / "out"), "max_steps": STEPS, "per_device_train_batch_size": 8,
        "use_cpu": True, "report_to": [], "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True,
        "train_sampling_strategy": "sequential", "learning_rate": 0.01, "warmup_steps": 2,
    }  # fmt: skip
    model = a_gpt() if model is None else model
    data = Tokens(3 if isinstance(model, BertForSequenceClassification) else None)
    arguments = TrainingArguments(**{**settings, **options})
    return kind(model=model, args=arguments, train_dataset=data, **chosen)


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
    ("model", "options"),
    [
        (a_gpt, {}),
        (a_gpt, {"bf16": True}),
        (a_gpt, {"gradient_checkpointing": True, "optim": "adamw_torch", "max_grad_norm": 0.0}),
        (a_bert, {"weight_decay": 0.1, "lr_scheduler_type": "cosine"}),
    ],
    ids=["a language model", "in bfloat16", "checkpointed and not clipped", "a classifier"],
)
def test_the_first_losses_are_those_of_train(
    tmp_path: Path, model: Callable[[], Any], options: dict[str, Any]
) -> None:
    noting = Noting()
    trainer = a_trainer(tmp_path, model=model(), callbacks=[noting], **options)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    ours = losses_of(advisor.Workload.from_trainer(trainer), STEPS)
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())
    assert trainer.optimizer is None and trainer.lr_scheduler is None
    trainer.train()
    assert ours == pytest.approx(noting.losses, rel=1e-4 if options.get("bf16") else 2e-5)
    assert len(set(ours)) == STEPS  # it learns


def test_accumulated_losses_are_those_of_train(tmp_path: Path) -> None:
    noting = Noting()
    options: dict[str, Any] = {
        "gradient_accumulation_steps": 2,
        "max_steps": 2,
        "model": Plain(),
        "remove_unused_columns": False,
    }
    trainer = a_trainer(tmp_path, callbacks=[noting], **options)
    ours = losses_of(advisor.Workload.from_trainer(trainer), 4)
    trainer.train()
    assert [sum(ours[:2]) / 2, sum(ours[2:]) / 2] == pytest.approx(noting.losses, rel=2e-5)


class Plain(nn.Module):
    """A model that returns its loss and takes nothing but its inputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(50, 50)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.table(input_ids)
        return {"loss": nn.functional.cross_entropy(logits.transpose(1, 2), labels), "logits": logits}


def test_a_workload_of_a_trainer_can_be_shipped(tmp_path: Path) -> None:
    workload = advisor.Workload.from_trainer(a_trainer(tmp_path, train_sampling_strategy="random"))
    shipped = unpack(pack({name: getattr(workload, name) for name in advisor.Workload.names()}))
    model = shipped.model()
    assert shipped.optimizer is not None
    optimizer = shipped.optimizer(model.parameters())
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    assert held == {id(each) for each in model.parameters()} and shipped.shuffle
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.0, 0.0]


def test_a_step_of_ones_own_takes_the_place_of_a_trainer_s_loss(tmp_path: Path) -> None:
    def step(model: nn.Module, inputs: Any) -> torch.Tensor:
        loss: torch.Tensor = model(**inputs)["loss"] * 2
        return loss

    trainer = a_trainer(tmp_path, OwnLoss)
    losses = losses_of(advisor.Workload.from_trainer(trainer, step=step), 1)
    assert losses == pytest.approx([2 * each for each in losses_of(plain_workload(tmp_path), 1)], rel=0.05)


def plain_workload(folder: Path) -> advisor.Workload:
    return advisor.Workload.from_trainer(a_trainer(folder))


class OwnLoss(Trainer):
    def compute_loss(self, *arguments: Any, **named: Any) -> Any:
        model, inputs = arguments
        return model(**inputs)["loss"] * 2


class OwnOrder(Trainer):
    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return torch.utils.data.RandomSampler(Tokens(), replacement=True)


def _func(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    return outputs["loss"]


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (OwnLoss, {}, "OwnLoss has its own compute_loss, which may keep a state"),
        (OwnOrder, {}, "OwnOrder has its own _get_train_sampler"),
        (Trainer, {"compute_loss_func": _func}, "the Trainer has a compute_loss_func"),
        (Trainer, {"gradient_accumulation_steps": 2}, "the tokens of all micro-batches together"),
        (Trainer, {"label_smoothing_factor": 0.1}, r"cannot be carried over: label_smoothing_factor=0\.1"),
        (
            Trainer,
            {"torch_compile": True, "neftune_noise_alpha": 5},
            "neftune_noise_alpha=5.*torch_compile=True",
        ),
    ],
)
def test_what_cannot_be_carried_over_is_refused_with_its_reason(
    tmp_path: Path, kind: type[Trainer], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError, match=told) as caught:
        advisor.Workload.from_trainer(a_trainer(tmp_path, kind, **options))
    assert isinstance(caught.value, ArgumentError) and caught.value.hint


def test_a_trainer_with_a_live_optimizer_and_no_trainer_at_all_are_refused(tmp_path: Path) -> None:
    model = a_gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ArgumentError, match="has an optimizer already"):
        advisor.Workload.from_trainer(a_trainer(tmp_path, model=model, optimizers=(optimizer, None)))
    with pytest.raises(ArgumentError, match="trainer is a Linear, not a Trainer"):
        advisor.Workload.from_trainer(nn.Linear(2, 2))


def test_a_callback_profiles_train_and_writes_the_report(tmp_path: Path) -> None:
    before, out = state(), tmp_path / "report"
    with ProfileCallback(steps=6, warmup=1, out=out) as profiled:
        a_trainer(tmp_path, max_steps=14, callbacks=[profiled]).train()
    after = state()
    assert after == before
    found = profiled.result
    assert found.data.profile.steps >= 2 and found.data.profile.phases_ms["backward"] > 0
    assert {path.name for path in out.iterdir()} == {"report.html", "result.json", "report.md"}


def test_a_training_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    class Failing(Trainer):
        def compute_loss(self, *arguments: Any, **named: Any) -> Any:
            if self.state.global_step == 2:
                raise ZeroDivisionError
            return super().compute_loss(*arguments, **named)

    before = state()
    with pytest.raises(ZeroDivisionError), ProfileCallback() as profiled:
        a_trainer(tmp_path, Failing, callbacks=[profiled]).train()
    assert state() == before
    with pytest.raises(SituationError, match="nothing was profiled"):
        _ = profiled.result
