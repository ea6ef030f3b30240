"""A recommendation applied to the model, loader arguments and optimizer of this very process."""

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from advisor.base.errors import clean
from advisor.result.document import Adopted, Recommendation, Value
from advisor.tuners.knob import Config, Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.knobs.channels_last import ChannelsLast
from advisor.tuners.knobs.execution import DYNAMIC
from advisor.tuners.knobs.sdpa_backend import BACKENDS
from advisor.tuners.mechanisms.blocks import repeated_blocks
from advisor.tuners.mechanisms.compiling import COMPILE, FREEZING, mode_of

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

OF_PROCESS = (
    "conv_fp32_precision", "cpu_affinity", "cudnn_benchmark", "flush_denormal", "matmul_precision", "mkldnn",
    "num_threads",
)  # fmt: skip
OF_START = ("alloc_conf", "malloc", "omp_wait_policy", "openmp_runtime")  # read when Python starts
OF_LOADER = (
    "num_workers", "batch_size", "in_memory_cache", "in_order", "multiprocessing_context",
    "persistent_workers", "pin_memory", "prefetch_factor",
)  # fmt: skip
OF_COMPILING = ("dynamic", "compile_region")  # settings of ``execution``


@dataclass(frozen=True)
class Left:
    """A change that is written by hand: which, why, and what to write."""

    knob: str
    to: Value
    reason: str
    snippet: str
    environment: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.knob} = {self.to}: {self.reason}", *self.snippet.splitlines()]
        lines += [f"export {name}={value}" for name, value in self.environment.items()]
        return "\n    ".join(clean(line) for line in lines)


@dataclass
class Applied:
    """What ``Result.apply`` changed, what is to be used from now on, and what is left to write by hand.

    Attributes:
        model: The one given, changed in place.
        loader_kwargs: A changed copy of those given, for ``DataLoader(**loader_kwargs)``.
        optimizer: The one given, its groups edited in place.
        done: Knobs that were applied, with their values.
        left: Changes that are written by hand.
    """

    model: "Module | None"
    loader_kwargs: dict[str, Any] | None
    optimizer: "Optimizer | None"
    done: dict[str, Value] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    _contexts: list[Callable[[], AbstractContextManager[Any]]] = field(default_factory=list)

    def forward(self) -> AbstractContextManager[Any]:
        """What the forward and the loss are to be computed in: autocast, for one; a new one for each step::

        with applied.forward():
            loss = loss_function(model(inputs), target)
        loss.backward()
        """
        together = ExitStack()
        for make in self._contexts:
            together.enter_context(make())
        return together

    def __repr__(self) -> str:
        done = ", ".join(f"{knob} = {value}" for knob, value in self.done.items())
        said = [f"Applied: {done or 'nothing'}"]
        if self._contexts:
            said.append("To use in each step: `with applied.forward(): ...` around forward and loss")
        if self.left:
            said += ["By hand:", *(f"  {each}" for each in self.left)]
        return "\n".join(said)


def apply(
    recommendation: Recommendation,
    model: "Module | None",
    loader_kwargs: Mapping[str, Any] | None,
    optimizer: "Optimizer | None",
) -> Applied:
    """Apply each change to what it is about, where that was given; the others are told with their reason."""
    kwargs = None if loader_kwargs is None else dict(loader_kwargs)
    applied = Applied(model, kwargs, optimizer)
    changes = sorted(recommendation.changes, key=lambda change: change.knob != "num_workers")
    for change in changes:  # whether there are workers decides about other arguments of a loader
        try:
            _apply(applied, change, recommendation.config)
        except Refused as reason:
            applied.left.append(_left(change, str(reason)))
        else:
            applied.done[change.knob] = change.to
    return applied


def _apply(applied: Applied, change: Adopted, config: Config) -> None:
    """Apply one change.

    Raises:
        Refused: It cannot be applied here, or what it is about was not given.
    """
    knob: Any = KNOBS.get(change.knob)
    if knob is None:
        raise Refused("this version of advisor has no such knob")
    if change.knob in OF_PROCESS or change.knob in OF_START:
        knob.process(change.to)  # of the latter it looks whether they are set
    elif change.knob in OF_LOADER:
        _edit_loader(_given(applied.loader_kwargs, "loader_kwargs"), change, knob)
    elif change.knob == "optimizer_implementation":
        knob.optimizer(_given(applied.optimizer, "optimizer"), change.to)
    elif change.knob == "channels_last":
        _keep_channels_last(_given(applied.model, "model"), change.to)
    elif change.knob == "low_precision_parameters":
        knob.model(_given(applied.model, "model"), change.to)
    elif change.knob == "execution":
        _compile(_given(applied.model, "model"), config)
    elif change.knob in OF_COMPILING:
        _follow_execution(config)
    elif change.knob in ("amp", "sdpa_backend", "saved_tensor_offload"):
        applied._contexts.append(_context(_given(applied.model, "model"), change, knob))
    else:
        raise Refused("it belongs into the loop or the model's own code")


def _given(value: Any, name: str) -> Any:
    if value is None:
        raise Refused(f"no {name} was given")
    return value


def _edit_loader(arguments: dict[str, Any], change: Adopted, knob: Any) -> None:
    if change.knob == "in_memory_cache" and "dataset" not in arguments:
        raise Refused("loader_kwargs have no dataset to keep the items of")
    knob.loader(arguments, change.to)


def _keep_channels_last(model: "Module", value: Value) -> None:
    """Weights in place; inputs by a hook of the model, as the trials did it."""
    knob = ChannelsLast()
    knob.model(model, str(value))
    model.register_forward_pre_hook(_input_in_channels_last, with_kwargs=True)


def _input_in_channels_last(model: "Module", inputs: Any, named: dict[str, Any]) -> Any:
    return ChannelsLast().call(lambda *given, **by_name: (given, by_name), model, "on")(*inputs, **named)


def _compile(model: "Module", config: Config) -> None:
    """Compile in place, so that the model stays the object that the optimizer and the user know."""
    mode, region = str(config["execution"]), str(config.get("compile_region", "model"))
    if not mode.startswith(COMPILE):
        raise Refused("what TorchScript makes of a model is another object")
    if mode == FREEZING:
        raise Refused("weights are frozen for the whole process: torch._inductor.config.freezing = True")
    if region not in ("model", "blocks"):
        raise Refused(f"compiled is the {region.replace('+', ' with the ')}, which is a function of the loop")
    if getattr(model, "_compiled_call_impl", None) is not None or hasattr(model, "_orig_mod"):
        raise Refused("torch.compile was called on the model already")
    how: dict[str, Any] = {
        "mode": mode_of(mode),
        "dynamic": DYNAMIC[str(config.get("dynamic", "auto"))],
    }
    with warnings.catch_warnings():  # torch's compiler imports what torch marks as deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        for each in repeated_blocks(model) if region == "blocks" else [model]:
            each.compile(**how)


def _follow_execution(config: Config) -> None:
    if not str(config.get("execution", "")).startswith(COMPILE):
        raise Refused("nothing is compiled")


def _context(model: "Module", change: Adopted, knob: Any) -> Callable[[], AbstractContextManager[Any]]:
    """What makes the context of one forward."""
    import torch

    if change.knob == "amp":
        if change.to != "bf16":
            raise Refused("fp16 needs a GradScaler around backward and update")
        device = next(model.parameters()).device.type
        return lambda: torch.autocast(device, dtype=torch.bfloat16)
    if change.knob == "sdpa_backend":
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend: SDPBackend = getattr(SDPBackend, BACKENDS[str(change.to)])
        return lambda: sdpa_kernel(backend)
    if knob.forward(model, change.to) is None:
        raise Refused("the model has no parameters")
    return lambda: knob.forward(model, change.to)


def _left(change: Adopted, reason: str) -> Left:
    return Left(change.knob, change.to, reason, change.snippet, dict(change.environment))
