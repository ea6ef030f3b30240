"""A Trainer of transformers as a workload."""

import copy
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from advisor.base.installation import install_extra
from advisor.workloads.loaders import is_random, refusal

try:
    from transformers import Trainer, get_scheduler
except ImportError:
    raise ImportError(f"Workload.from_trainer needs transformers: {install_extra('huggingface')}") from None

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

OWN_STEP = "profile it with ProfileCallback, or write the step: `Workload.from_trainer(trainer, step=...)`"
CHANGES_STEPS = ("compute_loss", "training_step")
CHANGES_OTHERS = (
    "create_optimizer", "create_scheduler", "get_batch_samples", "get_train_dataloader",
    "_get_train_sampler",
)  # fmt: skip


def workload_arguments(trainer: Any, step: Any = None) -> dict[str, Any]:
    """Arguments of a workload whose steps compute what ``Trainer.train`` computes.

    Args:
        trainer: A Trainer that has not begun to train; it is not changed.
        step: ``(model, inputs) -> loss``, in place of the Trainer's own.

    Raises:
        ArgumentError: Something cannot be carried over; which, and why.
    """
    if not isinstance(trainer, Trainer):
        raise refusal(f"trainer is a {type(trainer).__name__}, not a Trainer of transformers")
    _check_methods(trainer, own_step=step is not None)
    _check_settings(trainer)
    args = trainer.args
    counts = bool(trainer.model_accepts_loss_kwargs) and step is None
    parts_of_update = args.gradient_accumulation_steps
    if counts and parts_of_update > 1:
        raise refusal(
            f"gradient_accumulation_steps={parts_of_update}: the Trainer divides the loss by the tokens of "
            "all micro-batches together, of which a step sees one",
            OWN_STEP,
        )
    loader = trainer.get_train_dataloader()
    dataset = loader.dataset
    updates = _updates(trainer, loader)
    parts = Parts(trainer, updates)
    return {
        "model": parts.model,
        "dataset": lambda: dataset,
        "optimizer": parts.optimizer,
        "scheduler": parts.scheduler if updates else None,
        "step": step or LossOfModel(counts, bool(trainer._loss_shifts_labels), bool(args.bf16)),
        "batch_size": args.train_batch_size,
        "collate": loader.collate_fn,
        "clip_norm": args.max_grad_norm if args.max_grad_norm and args.max_grad_norm > 0 else None,
        "accumulation": parts_of_update,
        "shuffle": is_random(trainer._get_train_sampler()),
        "drop_last": args.dataloader_drop_last,
        "num_workers": args.dataloader_num_workers,
        "prefetch_factor": args.dataloader_prefetch_factor,
        "persistent_workers": args.dataloader_persistent_workers,
        "pin_memory": args.dataloader_pin_memory,
    }


class Parts:
    """Factories of a workload over one Trainer: each model is a copy that nothing has trained yet.

    Args:
        trainer: The Trainer.
        updates: Those of the whole training, 0 where that is not known.
    """

    def __init__(self, trainer: Any, updates: int) -> None:
        args = trainer.args
        self._model = trainer.model
        self._checkpoints = args.gradient_checkpointing
        self._checkpointing = args.gradient_checkpointing_kwargs
        self._decayed = frozenset(trainer.get_decay_parameter_names(trainer.model))
        self._weight_decay = args.weight_decay
        self._kind, self._settings = trainer.get_optimizer_cls_and_kwargs(args, trainer.model)
        self._schedule = {
            "name": args.lr_scheduler_type,
            "num_warmup_steps": args.get_warmup_steps(updates),
            "num_training_steps": updates,
            "scheduler_specific_kwargs": args.lr_scheduler_kwargs,
        }
        self._present: Any = None
        if not isinstance(self._kind, type) or {"params", "model", "optimizer_dict"} & self._settings.keys():
            raise refusal(f"optim={str(args.optim)!r} makes its parameter groups itself")

    def model(self) -> "Module":
        """A copy of the model."""
        model: Module = copy.deepcopy(self._model)
        if self._checkpoints:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=self._checkpointing)  # type: ignore[operator]  # a model of transformers
        self._present = model
        return model

    def optimizer(self, parameters: Any) -> "Optimizer":
        """The Trainer's optimizer over the present copy: no decay where the Trainer gives none."""
        named = [(name, each) for name, each in self._present.named_parameters() if each.requires_grad]
        groups = [
            {
                "params": [each for name, each in named if (name in self._decayed) is decays],
                "weight_decay": self._weight_decay if decays else 0.0,
            }
            for decays in (True, False)
        ]
        optimizer: Optimizer = self._kind(groups, **self._settings)
        return optimizer

    def scheduler(self, optimizer: "Optimizer") -> "LRScheduler":
        """The schedule that the Trainer follows, over the whole training."""
        schedule: LRScheduler = get_scheduler(optimizer=optimizer, **self._schedule)
        return schedule


class LossOfModel:
    """The loss that a model returns, as the Trainer asks for it.

    Args:
        counts: Whether the model is told how many labels its loss is divided by.
        shifts: Whether its loss leaves out the first label of each row.
        mixed: Whether the forward runs under autocast in bfloat16.
    """

    def __init__(self, counts: bool, shifts: bool, mixed: bool) -> None:
        self._counts = counts
        self._shifts = shifts
        self._mixed = mixed

    def __call__(self, model: "Module", batch: Mapping[str, Any]) -> "Tensor":
        """The loss of one batch."""
        inputs = dict(batch)
        if self._counts and "labels" in inputs:
            labels = inputs["labels"][..., 1:] if self._shifts else inputs["labels"]
            counted = inputs.get("shift_labels", labels)
            inputs["num_items_in_batch"] = counted.ne(-100).sum()
        with self._autocast(model):
            outputs = model(**inputs)
        loss: Tensor = outputs["loss"] if isinstance(outputs, Mapping) else outputs[0]
        return loss.float() if self._mixed else loss

    def _autocast(self, model: "Module") -> AbstractContextManager[Any]:
        if not self._mixed:
            return nullcontext()
        import torch

        return torch.autocast(next(model.parameters()).device.type, dtype=torch.bfloat16)


def _check_methods(trainer: Any, *, own_step: bool) -> None:
    """Refuse what a subclass does otherwise."""
    name = type(trainer).__name__
    looked_at = CHANGES_OTHERS if own_step else (*CHANGES_STEPS, *CHANGES_OTHERS)
    own = [each for each in looked_at if getattr(type(trainer), each) is not getattr(Trainer, each)]
    if own:
        raise refusal(f"{name} has its own {', '.join(own)}, which may keep a state", OWN_STEP)
    if not own_step and trainer.compute_loss_func is not None:
        raise refusal("the Trainer has a compute_loss_func, which may keep a state", OWN_STEP)
    if trainer.optimizer is not None or trainer.lr_scheduler is not None:
        raise refusal(
            "the Trainer has an optimizer already: it was given one, or has begun to train",
            "make a Trainer anew, with its optimizer described by `optim=`",
        )


def _check_settings(trainer: Any) -> None:
    """Refuse settings that change a step in a way that a workload cannot."""
    args = trainer.args
    refused = {
        "fp16=True": args.fp16,
        f"label_smoothing_factor={args.label_smoothing_factor}": args.label_smoothing_factor,
        f"neftune_noise_alpha={args.neftune_noise_alpha}": args.neftune_noise_alpha is not None,
        "torch_compile=True": args.torch_compile,
        "deepspeed": args.deepspeed,
        "fsdp": args.fsdp,
        f"{args.world_size} processes": args.world_size > 1,
        f"{args.n_gpu} GPUs in one process": args.n_gpu > 1,
        f"train_sampling_strategy={args.train_sampling_strategy!r}": (
            args.train_sampling_strategy not in ("random", "sequential")
        ),
    }
    found = [setting for setting, is_set in refused.items() if is_set]
    if found:
        raise refusal(f"these settings of the Trainer cannot be carried over: {', '.join(found)}", OWN_STEP)


def _updates(trainer: Any, loader: Any) -> int:
    """Updates of the whole training, 0 where that is not known."""
    args = trainer.args
    if args.max_steps > 0:
        return int(args.max_steps)
    if not hasattr(loader.dataset, "__len__"):
        return 0
    each: int = max(1, math.ceil(len(loader) / int(args.gradient_accumulation_steps)))
    return math.ceil(float(args.num_train_epochs) * each)
