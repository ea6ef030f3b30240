"""A whole model on every rank, and a part of the optimizer's state."""

import logging
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.mechanisms.data_parallel.divided_batch import refuse_special_parameters, refuse_undivided
from advisor.tuners.mechanisms.data_parallel.held_bytes import held_bytes, held_state_bytes
from advisor.tuners.mechanisms.data_parallel.sent_bytes import all_gather, all_reduce
from advisor.tuners.mechanisms.data_parallel.wrapped_calls import only_called
from advisor.tuners.mechanisms.parameter_server.rebuilding import Recipe, accepted, recipe_of
from advisor.tuners.place import HERE
from advisor.tuners.strategy import Build, Loss, Strategy

if TYPE_CHECKING:
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn import Module
    from torch.optim import Optimizer

CODE = """from torch.distributed.optim import ZeroRedundancyOptimizer
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=lr)"""
UNUSED = "some parameters get no gradient, and every rank waits for the gradients of all"
TRACED = "TorchScript calls the model past DistributedDataParallel, which then averages no gradients"
MAY_HANG = "gloo may hang where updates overlap with backward, so torch refuses it (pytorch #62300)"


class Zero(Strategy):
    """Each rank keeps the optimizer's state of some parameters, updates those, and sends them to the others.

    Gradients are averaged during backward as in `ddp`; then `ZeroRedundancyOptimizer` updates on each rank
    the parameters that it was given, whole ones, shared out by size, and broadcasts them. AdamW's state,
    twice the size of the parameters, so takes 1/n of the memory on n ranks; parameters and gradients stay
    whole. The optimizer is built once as the program does, and a second time, in parts, from what that one
    says of its class and settings.

    Per update a rank sends 2 (n-1)/n times the bytes of the gradients (all-reduce) and (n-1)/n times those of
    parameters and buffers (broadcasts; mean over the ranks): half as much again as `ddp`. In the ZeRO paper
    (Rajbhandari and others, 2020) stage 1 sends no more than `ddp`, since there each rank receives only the
    gradients that it needs. So it pays where state is what does not fit.

    On two cores a small convolution network did 918 to 1214 samples/s, against 1140 to 1302 in one process
    with two threads, large linear layers 5296 to 5822 against 11048 to 12909. Losses were those of one
    process to 1e-7; buffers, such as statistics of batch norm, are those of the first rank.
    """

    semantics = Semantics.ROUNDING
    written = ("zeroredundancyoptimizer",)

    def __init__(self) -> None:
        self._model: Module | None = None
        self._optimizer: Optimizer | None = None

    def meaning(self, config: Config) -> Semantics:
        return Semantics.TRAINING if config.get("overlap_with_ddp") == "on" else self.semantics

    def check(self, profile: Profile, ranks: int) -> None:
        refuse_undivided(profile)
        refuse_special_parameters(profile)
        if any(optimizer.without_gradient_bytes for optimizer in profile.optimizers):
            raise Refused(UNUSED)

    def change(self) -> Change:
        return Change(CODE)

    def wrap(self, model: "Module") -> "Module":
        from torch.nn.parallel import DistributedDataParallel

        if str(self.setting("execution", "eager")).startswith("jit"):
            raise Refused(TRACED)
        parameters = list(model.parameters())
        if not any(parameter.requires_grad for parameter in parameters):
            raise Refused("no parameter of the model is trained")
        types = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters})
        if len(types) > 1:
            raise Refused(f"ZeroRedundancyOptimizer takes parameters of one type, not of {', '.join(types)}")
        self._model = DistributedDataParallel(model, process_group=HERE.among_workers)
        return self._model

    def optimizer(self, build: Build, model: "Module") -> "Optimizer":
        recipe = recipe_of(build(model.parameters()))
        overlaps = self.setting("overlap_with_ddp", "off") == "on"
        self._optimizer = _overlapping(recipe, model) if overlaps else self._rebuilt(recipe)
        return self._optimizer

    def micro_batch(self, model: Any, last: bool) -> AbstractContextManager[Any]:
        """Gradients travel once per update: in the last backward before it."""
        return nullcontext() if last else model.no_sync()

    def forward_backward(self, loss: Loss, model: "Module", batch: Any, divisor: float) -> None:
        with only_called(model):
            super().forward_backward(loss, model, batch, divisor)

    def clip(self, model: "Module", limit: float) -> None:
        """Every rank holds all gradients, so each takes the norm by itself.

        Raises:
            Refused: Parameters have been updated within backward.
        """
        if self.setting("overlap_with_ddp", "off") == "on":
            raise Refused("overlap_with_ddp updates before all gradients are known: they cannot be clipped")
        super().clip(model, limit)

    def epoch(
        self, model: "Module", optimizer: "Optimizer", batches: int | None = None
    ) -> AbstractContextManager[Any]:
        """Workers have equally many batches, since the sampler deals them out.

        Raises:
            Refused: A scheduler would be without effect.
        """
        if self.setting("overlap_with_ddp", "off") == "on" and "initial_lr" in optimizer.param_groups[0]:
            raise Refused("overlap_with_ddp takes the learning rate once, so a scheduler has no effect")
        return nullcontext()

    def report(self) -> dict[str, Any]:
        """Bytes sent per update, and bytes held here of parameters and optimizer state."""
        if self._model is None or self._optimizer is None:
            return {}
        workers = self.place.workers
        parameters = list(self._model.parameters())
        trained = held_bytes(parameter for parameter in parameters if parameter.requires_grad)
        sent_whole = held_bytes([*parameters, *self._model.buffers()])
        return {
            "bytes_per_step": round(all_reduce(trained, workers) + all_gather(sent_whole, workers)),
            "parameter_bytes": held_bytes(parameters),
            "optimizer_state_bytes": held_state_bytes(self._optimizer),
        }

    def _rebuilt(self, recipe: Recipe) -> "Optimizer":
        """The optimizer in parts, one on each worker."""
        views = self.setting("parameters_as_bucket_view", "off") == "on"
        optimizer = _sharded(recipe, recipe.arguments, parameters_as_bucket_view=views)
        recipe.check(optimizer.optim)
        return optimizer


def _overlapping(recipe: Recipe, model: Any) -> "Optimizer":
    """One that updates within backward, as soon as the gradients of a bucket are averaged.

    Raises:
        Refused: The backend or the optimizer has no such form.
    """
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    name = recipe.kind.__name__
    if dist.get_backend(HERE.among_workers) == "gloo":
        raise Refused(MAY_HANG)
    if len(recipe.groups) > 1:
        raise Refused("overlap_with_ddp takes parameters in one group only")
    functional = _functional_form(recipe.kind)
    if functional is None:
        raise Refused(f"torch has no functional form of {name}, which overlap_with_ddp needs")
    settings = {key: value for key, value in recipe.arguments.items() if value is not None}
    arguments = accepted(functional, settings)
    lost = [f"{key}={value}" for key, value in settings.items() if value and key not in arguments]
    if lost:
        raise Refused(f"the functional form of {name} has no {lost[0]}")
    # its `step` warns at every call that it does nothing; the loop calls the step of any optimizer
    logging.getLogger("torch.distributed.optim.zero_redundancy_optimizer").setLevel(logging.ERROR)
    optimizer = _sharded(recipe, arguments, overlap_with_ddp=True)
    model.register_comm_hook(None, hook_with_zero_step(allreduce_hook, model, optimizer))
    return optimizer


def _functional_form(kind: "type[Optimizer]") -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and torch's own module uses it
        from torch.distributed.optim.utils import functional_optim_map
    return functional_optim_map.get(kind)


def _sharded(recipe: Recipe, arguments: dict[str, Any], **how: bool) -> "ZeroRedundancyOptimizer":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and torch's own module uses it
        from torch.distributed.optim import ZeroRedundancyOptimizer
    try:
        return ZeroRedundancyOptimizer(
            recipe.groups, recipe.kind, process_group=HERE.among_workers, **how, **arguments
        )
    except (TypeError, ValueError) as error:
        reason = f"{recipe.kind.__name__} cannot be built again from its settings: {error}"
        raise Refused(reason) from error
