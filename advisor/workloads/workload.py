"""A training program given as factories: model, data, loss, optimizer, and how a step runs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from advisor.base.errors import ArgumentError, UsageError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler
    from torch.utils.data import Dataset

EXAMPLE = """advisor.Workload(
    model=lambda: Net(), dataset=lambda: Data(),
    loss=torch.nn.functional.cross_entropy, optimizer=lambda params: torch.optim.AdamW(params),
    batch_size=64)"""


CALLABLES = (
    "model", "dataset", "optimizer", "loss", "step", "collate", "scheduler", "evaluate", "infer", "metric",
    "calibration",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What to train or to serve, and how, for ``advisor tune FILE`` where FILE defines ``workload``.

    Model and dataset alone are a trained model that answers requests (``--objective latency``); with
    ``optimizer`` and ``loss`` or ``step`` it can be trained.

    Attributes:
        model: ``() -> Module``.
        dataset: ``() -> Dataset``; each item is ``(input, target)`` unless ``step`` says otherwise.
        loss: ``(output, target) -> scalar Tensor``. May be left out when ``step`` is given.
        optimizer: ``(parameters) -> Optimizer``.
        batch_size: Samples per micro-batch, at least 1.
        step: ``(model, batch) -> scalar loss``, for anything but ``loss(model(input), target)``.
        collate: ``(list of items) -> batch``, handed to the DataLoader.
        scheduler: ``(optimizer) -> LRScheduler``, stepped after each update.
        clip_norm: Largest gradient norm.
        accumulation: Micro-batches per update.
        evaluate: ``(model) -> float``, run once per epoch.
        num_workers, prefetch_factor, persistent_workers, pin_memory, shuffle, drop_last: The present
            arguments of the DataLoader.
        infer: ``(model, batch) -> output``, one request; by default the model is called with the batch less
            its target, in evaluation mode and without gradients.
        metric: ``(output, target) -> float`` of one sample, higher is better; needs a target in the items.
        example_inputs: Positional arguments of the model, or a mapping of named ones, for exporting it; by
            default those of the first request.
        calibration: ``() -> iterable of batches`` on which ranges are measured; by default a share of the
            dataset on which nothing is judged.
        dynamic: Which sizes of the inputs vary, as ``torch.export`` takes it.
        device: ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.

    Raises:
        ArgumentError: Something that is needed is missing or not callable.
        UsageError: A number is out of range.
    """

    model: "Callable[[], Module]"
    dataset: "Callable[[], Dataset[Any]]"
    optimizer: "Callable[[Iterable[Parameter]], Optimizer] | None" = None
    loss: "Callable[[Any, Any], Tensor] | None" = None
    batch_size: int = 32
    step: "Callable[[Module, Any], Tensor] | None" = None
    collate: Callable[[list[Any]], Any] | None = None
    scheduler: "Callable[[Optimizer], LRScheduler] | None" = None
    clip_norm: float | None = None
    accumulation: int = 1
    evaluate: "Callable[[Module], float] | None" = None
    num_workers: int = 0
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory: bool = False
    shuffle: bool = True
    drop_last: bool = True
    device: str = "auto"
    infer: "Callable[[Module, Any], Any] | None" = None
    metric: Callable[[Any, Any], float] | None = None
    example_inputs: tuple[Any, ...] | dict[str, Any] | None = None
    calibration: Callable[[], Iterable[Any]] | None = None
    dynamic: Any = None

    def __post_init__(self) -> None:
        if self.optimizer is not None and self.loss is None and self.step is None:
            raise ArgumentError("a workload with an optimizer needs loss or step", hint=EXAMPLE)
        if self.optimizer is None and (self.loss is not None or self.step is not None):
            raise ArgumentError("a workload that trains needs an optimizer", hint=EXAMPLE)
        for name in CALLABLES:
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise ArgumentError(f"{name} must be a callable, got {type(value).__name__}", hint=EXAMPLE)
        for name in ("batch_size", "accumulation"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}")

    @property
    def trains(self) -> bool:
        """Whether it can be trained."""
        return self.optimizer is not None

    @classmethod
    def from_lightning(cls, module: Any, data: Any = None, *, trainer: Any = None) -> Self:
        """A LightningModule with its data as a workload whose first losses are those of ``Trainer.fit``.

        Args:
            module: A LightningModule with automatic optimization and one optimizer; it is copied.
            data: A LightningDataModule, which is set up as ``fit`` does it, or a DataLoader; without it the
                module's own ``train_dataloader`` is asked, as ``fit`` does.
            trainer: Whose accumulation, clipping and precision hold.

        Raises:
            ArgumentError: Something cannot be carried over; which, and why (a TypeError).
        """
        from advisor.workloads.lightning import workload_arguments

        return cls(**workload_arguments(module, data, trainer))

    @classmethod
    def from_trainer(cls, trainer: Any, *, step: "Callable[[Module, Any], Tensor] | None" = None) -> Self:
        """A Trainer of transformers as a workload whose first losses are those of ``trainer.train()``.

        Args:
            trainer: One that has not begun to train; it stays as it is.
            step: ``(model, inputs) -> loss``, where the Trainer has a ``compute_loss`` of its own.

        Raises:
            ArgumentError: Something cannot be carried over; which, and why (a TypeError).
        """
        from advisor.workloads.huggingface import workload_arguments

        return cls(**workload_arguments(trainer, step))

    @classmethod
    def names(cls) -> list[str]:
        """The names of all arguments."""
        return [field.name for field in fields(cls)]
