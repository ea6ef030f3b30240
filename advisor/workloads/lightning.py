"""A LightningModule with its data as a workload."""

import copy
import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, autocast, bfloat16
from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from advisor.base.installation import install_extra
from advisor.workloads.loaders import loader_arguments, refusal

try:
    from lightning import pytorch as pl
except ImportError:
    raise ImportError(f"Workload.from_lightning needs Lightning: {install_extra('lightning')}") from None

CHANGES_STEPS = (
    "backward", "configure_gradient_clipping", "lr_scheduler_step", "on_after_backward",
    "on_after_batch_transfer", "on_before_backward", "on_before_batch_transfer", "on_before_optimizer_step",
    "on_before_zero_grad", "on_train_batch_end", "on_train_batch_start", "on_train_start", "optimizer_step",
    "optimizer_zero_grad", "transfer_batch_to_device",
)  # fmt: skip
"""Methods of a LightningModule that may change what a step does, and that a workload has no place for."""


def workload_arguments(module: Any, data: Any = None, trainer: Any = None) -> dict[str, Any]:
    """Arguments of a workload whose steps compute what Lightning's automatic optimization computes.

    Args:
        module: A LightningModule, which is copied.
        data: A LightningDataModule, which is set up as ``fit`` does it, or a DataLoader; that of the module
            where ``None``.
        trainer: Whose accumulation, clipping and precision hold; Lightning's defaults where ``None``.

    Raises:
        ArgumentError: Something cannot be carried over; which, and why.
    """
    _check_module(module)
    loader = _train_loader(data, module)
    arguments = loader_arguments(loader)
    precision, limits = _settings(trainer)
    batches = len(loader) if hasattr(arguments["dataset"](), "__len__") else 0
    updates = max(1, -(-batches // limits["accumulation"])) if batches else 0
    parts = Parts(module, precision, updates)
    scheduled = parts.look(clips=limits["clip_norm"] is not None)
    return {
        **arguments,
        **limits,
        "model": parts.model,
        "optimizer": parts.optimizer,
        "scheduler": parts.scheduler if scheduled else None,
        "step": Steps(_takes_index(module), batches),
    }


class Parts:
    """Factories of a workload over one LightningModule: each model is a copy that nothing has trained yet.

    Args:
        module: The LightningModule.
        precision: Lightning's name of it.
        updates: Updates of one epoch, 0 where that is not known.
    """

    def __init__(self, module: Any, precision: str, updates: int) -> None:
        self._module = _detached(module)
        self._precision = precision
        self._updates = updates
        self._present: Any = None
        self._scheduler: Any = None

    def model(self) -> "TrainingStep":
        """A copy of the module, called for its loss."""
        self._present = copy.deepcopy(self._module)
        self._present.configure_model()
        return TrainingStep(self._present, self._precision)

    def optimizer(self, parameters: Any) -> Optimizer:
        """What ``configure_optimizers`` makes for the present copy, whose parameters it knows itself."""
        optimizer, self._scheduler = _configured(self._present)
        return optimizer

    def scheduler(self, optimizer: Optimizer) -> "Paced":
        """The scheduler that came with the optimizer."""
        return Paced(self._scheduler, self._updates)

    def look(self, *, clips: bool) -> bool:
        """Try ``configure_optimizers`` on a copy; whether it has a scheduler.

        Args:
            clips: Whether gradients are clipped.

        Raises:
            ArgumentError: Its optimizers or schedulers cannot be carried over.
        """
        model = self.model()
        groups = self.optimizer(()).param_groups
        updated = {id(each) for group in groups for each in group["params"]}
        strays = [name for name, each in model.module.named_parameters() if id(each) not in updated]
        trained = [name for name in strays if model.module.get_parameter(name).requires_grad]
        if clips and trained:
            raise refusal(
                f"gradients of {', '.join(trained[:3])} would count into the norm that is clipped, though no "
                "optimizer updates them",
                "`requires_grad_(False)` for parameters that are not trained",
            )
        if self._scheduler is not None:
            Paced(self._scheduler, self._updates)
        scheduled = self._scheduler is not None
        self._present = self._scheduler = None
        return scheduled


class TrainingStep(Module):
    """A LightningModule that computes its training loss when it is called.

    Args:
        module: The LightningModule.
        precision: ``bf16-mixed`` for autocast.
    """

    def __init__(self, module: Any, precision: str) -> None:
        super().__init__()
        self.module = module
        self._mixed = precision == "bf16-mixed"
        self._modes = {name: part.training for name, part in module.named_modules()}

    def forward(self, batch: Any, *index: int) -> Tensor:
        """The loss of ``training_step``."""
        if self._mixed:
            with autocast(self.module.device.type, dtype=bfloat16):
                found = self.module.training_step(batch, *index)
        else:
            found = self.module.training_step(batch, *index)
        loss: Tensor = found["loss"] if isinstance(found, Mapping) else found
        return loss

    def train(self, mode: bool = True) -> "TrainingStep":
        """As Lightning trains it: parts that were in eval mode stay there."""
        super().train(mode)
        if mode:
            for name, part in self.module.named_modules():
                part.training = self._modes.get(name, True)
        return self


class Steps:
    """The step of the workload: hands ``batch_idx`` to those who take it.

    Args:
        takes_index: Whether ``training_step`` has that argument.
        batches: Batches of an epoch, after which the index begins anew; 0 where that is not known.
    """

    def __init__(self, takes_index: bool, batches: int) -> None:
        self._takes_index = takes_index
        self._batches = batches
        self._index = 0

    def __call__(self, model: Module, batch: Any) -> Any:
        """The loss of one batch."""
        index = self._index
        self._index = (index + 1) % self._batches if self._batches else index + 1
        return model(batch, index) if self._takes_index else model(batch)


class Paced:
    """A learning rate scheduler that is told of every update and steps at Lightning's interval.

    Args:
        configured: The scheduler, or Lightning's dict with its ``interval`` and ``frequency``.
        updates: Updates of one epoch, 0 where that is not known.

    Raises:
        ArgumentError: It needs more than the number of updates.
    """

    def __init__(self, configured: Any, updates: int) -> None:
        settings = configured if isinstance(configured, Mapping) else {"scheduler": configured}
        self._scheduler = settings["scheduler"]
        if isinstance(self._scheduler, ReduceLROnPlateau) or settings.get("reduce_on_plateau"):
            raise refusal("the learning rate follows a metric (ReduceLROnPlateau)")
        interval = settings.get("interval", "epoch")
        if interval == "step" and int(settings.get("frequency", 1)) > 1:
            raise refusal("the learning rate changes with every few batches, counted anew in each epoch")
        if interval == "epoch" and not updates:
            raise refusal("the learning rate changes with the epoch, whose length is not known")
        self._every = int(settings.get("frequency", 1)) * (updates if interval == "epoch" else 1)
        self._seen = 0

    def step(self) -> None:
        """The optimizer has made an update."""
        self._seen += 1
        if self._seen % self._every == 0:
            self._scheduler.step()


def _check_module(module: Any) -> None:
    if not isinstance(module, pl.LightningModule):
        raise refusal(f"module is a {type(module).__name__}, not a LightningModule of {pl.__name__}")
    name = type(module).__name__
    if not module.automatic_optimization:
        raise refusal(f"{name} optimizes by itself (automatic_optimization=False)")
    if "dataloader_iter" in inspect.signature(module.training_step).parameters:
        raise refusal(f"training_step of {name} takes its batches itself (dataloader_iter)")
    own = [hook for hook in CHANGES_STEPS if _is_own(module, hook)]
    if own:
        raise refusal(f"{name} has its own {', '.join(own)}, which a workload has no place for")


def _is_own(module: Any, method: str) -> bool:
    return getattr(type(module), method, None) is not getattr(pl.LightningModule, method, None)


def _takes_index(module: Any) -> bool:
    return len(inspect.signature(module.training_step).parameters) > 1


def _train_loader(data: Any, module: Any) -> Any:
    if data is None:
        if not _is_own(module, "train_dataloader"):
            raise refusal(f"{type(module).__name__} has no train_dataloader, and no data were given")
        data = module
    elif not isinstance(data, pl.LightningDataModule):
        return data
    else:
        for hook in ("transfer_batch_to_device", "on_before_batch_transfer", "on_after_batch_transfer"):
            if getattr(type(data), hook) is not getattr(pl.LightningDataModule, hook):
                raise refusal(f"{type(data).__name__} has its own {hook}, which a workload has no place for")
    data.prepare_data()
    data.setup("fit")
    return data.train_dataloader()


def _settings(trainer: Any) -> tuple[str, dict[str, Any]]:
    """Precision, and arguments of the workload, of a Trainer."""
    if trainer is None:
        return "32-true", {"accumulation": 1, "clip_norm": None}
    if trainer.precision not in ("32-true", "bf16-mixed"):
        raise refusal(f"precision={trainer.precision!r}: only '32-true' and 'bf16-mixed' can be carried over")
    clips = trainer.gradient_clip_val
    if clips and str(trainer.gradient_clip_algorithm or "norm") not in ("norm", "GradClipAlgorithmType.NORM"):
        raise refusal("gradients are clipped by value; a workload clips by norm")
    if trainer.world_size > 1:
        raise refusal(f"the Trainer has {trainer.world_size} processes", "give one, and `ranks` to tune")
    return trainer.precision, {
        "accumulation": trainer.accumulate_grad_batches,
        "clip_norm": float(clips) if clips else None,
    }


def _configured(module: Any) -> tuple[Optimizer, Any]:
    """The one optimizer of a module, and its scheduler if it has one."""
    try:
        made = module.configure_optimizers()
    except RuntimeError as error:
        if "not attached to a `Trainer`" not in str(error):
            raise
        raise refusal("configure_optimizers reads self.trainer, which a workload does not have") from None
    if isinstance(made, Mapping):
        return made["optimizer"], made.get("lr_scheduler")
    optimizers, schedulers = _listed(made)
    if len(optimizers) != 1 or not isinstance(optimizers[0], Optimizer):
        raise refusal(f"configure_optimizers gives {len(optimizers)} optimizers; a workload has one")
    if len(schedulers) > 1:
        raise refusal(f"configure_optimizers gives {len(schedulers)} schedulers; a workload has one")
    return optimizers[0], schedulers[0] if schedulers else None


def _listed(made: Any) -> tuple[list[Any], list[Any]]:
    """What ``configure_optimizers`` returned, as two lists."""
    if made is None:
        return [], []
    if isinstance(made, list | tuple) and len(made) == 2 and isinstance(made[0], list):
        return made[0], made[1] if isinstance(made[1], list) else [made[1]]
    if isinstance(made, list | tuple):
        plain = [each["optimizer"] if isinstance(each, Mapping) else each for each in made]
        return plain, [
            each["lr_scheduler"] for each in made if isinstance(each, Mapping) and "lr_scheduler" in each
        ]
    return [made], []


def _detached(module: Any) -> Any:
    """A copy without its Trainer, which logs nothing and is set up for training."""
    alone = copy.deepcopy(module, {id(module._trainer): None})
    alone.log = alone.log_dict = _log_nothing
    alone.setup("fit")
    return alone


def _log_nothing(*arguments: Any, **named: Any) -> None:
    """In place of ``self.log``: there is no Trainer to log to."""
