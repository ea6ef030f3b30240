"""How a model's forward is executed: eagerly, compiled, or by TorchScript."""

import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics, offered
from advisor.tuners.mechanisms.blocks import repeated_blocks
from advisor.tuners.mechanisms.compiling import COMPILE
from advisor.tuners.mechanisms.torchscript import Hybrid, Traced, scripted

if TYPE_CHECKING:
    from torch.nn import Module

FOR_CUDA = ("compile-reduce-overhead", "compile-max-autotune-no-cudagraphs", "compile-max-autotune")
JIT = ("jit_script", "jit_trace", "jit_hybrid")
DYNAMIC = {"auto": None, "on": True, "off": False}
DISPATCH_MS = 0.004  # of one operator that is called eagerly, with its part of backward; set by experiment
NO_JIT_IN_SCRIPTS = (
    "a trace freezes the train flag and control flow, and torch marks jit as deprecated; "
    "it is tried on workload files only"
)


class Execution(Knob[str]):
    """Runs the forward of each root as it is, through `torch.compile`, or through TorchScript.

    `compile` measured on a CPU: U-Net 1.43 to 1.46; ViT, GPT-2, recommender 1.0 to 1.14; small MLP
    **0.82**, BERT 0.94; an LSTM stays eager without a word. The first step took 24 to 154 s on a loaded
    machine, 5 s with a warm cache, so the cost, the steady state and the steps until it pays are told
    apart. GPU figures of others: 3.9 to 6.1 on a small model bound by launches, 0.93 on an 8B model.
    `reduce-overhead` and `max-autotune` record CUDA graphs: shapes must stay the same, memory grows.

    `jit_script` and `jit_trace` gave 0.91 to 1.05: no gain where it was measured. `jit_hybrid` traces only
    the largest child of the root that can be traced, a backbone say; what stands around it, such as a head
    that decides by values, stays as it is. torch marks all three as deprecated. A trace is refused when the
    forward decides by values, hooks are refused by all.

    `fullgraph=True` is no value: it computes what `compile` computes, or fails. How many breaks there are is
    told of a trial that compiles, and `graph_breaks` names their lines in a program that compiles.

    Compiled code draws other random numbers, so a model that samples is compared with the noise between
    seeds. Varying shapes compile again; after eight times torch goes back to eager.
    """

    semantics = Semantics.ROUNDING
    usual_gain = 0.3
    compiles = True
    acts_on = ("forward", "backward")
    layer = -1  # innermost: only the program's own forward may be compiled, never a wrapper
    written = ("torch.compile",)

    def __init__(self) -> None:
        self._traced: weakref.WeakKeyDictionary[Module, Traced | Hybrid] = weakref.WeakKeyDictionary()
        self._dynamic: bool | None = None
        self._region = "model"

    def values(self) -> list[str]:
        return ["eager", COMPILE, *FOR_CUDA, *JIT]

    def present(self, profile: Profile) -> str:
        own = profile.run is not None and profile.run.own_compile
        if own or any(root.already_compiled for root in profile.roots):
            raise Refused("torch.compile is already called by the program")
        if any(root.scripted for root in profile.roots):
            raise Refused("the model is already scripted or traced")
        return "eager"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        tried = (COMPILE, *FOR_CUDA, *JIT) if profile.device.startswith("cuda") else (COMPILE, *JIT)
        refusals = {value: _refusal(value, profile) for value in tried}
        return offered(present, refusals)

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        reason = _refusal(value, profile)
        if reason:
            raise Refused(reason)

    def prepare(self, config: Config, present: Config) -> None:
        """Take over what other knobs say about compiling: `dynamic` and `compile_region`."""
        self._dynamic = DYNAMIC[str(config.get("dynamic", "auto"))]
        self._region = str(config.get("compile_region", "model"))

    def expected(self, profile: Profile, value: str) -> float | None:
        """What chains of elementwise operators save when fused, and what calls of operators cost in Python.

        On a GPU, where launches overlap, and where no chains were recorded nothing is known.
        """
        if value in JIT:
            return 1.0
        window = profile.window
        if window is None or window.pointwise is None or profile.device.startswith("cuda"):
            return None
        chains = window.pointwise
        fused = 1 - chains.bytes_fused / chains.bytes_moved if chains.bytes_moved > 0 else 0.0
        saved_ms = chains.ms * fused + DISPATCH_MS * window.dispatches
        return 1 / (1 - min(0.6, saved_ms / window.step_ms))

    def call(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """What to call in place of ``function``, the root's own bound forward.

        Raises:
            Refused: The root is compiled already, or TorchScript cannot take it.
        """
        if getattr(root, "_compiled_call_impl", None) is not None or hasattr(root, "_orig_mod"):
            raise Refused("torch.compile is already called by the program")
        if value.startswith(COMPILE):
            return self._compiled(function, root, value)
        if value == "jit_script":
            return scripted(function, root)
        if value in ("jit_trace", "jit_hybrid"):
            kind = Traced if value == "jit_trace" else Hybrid
            traced = self._traced[root] = kind(function, root)
            return traced
        return function

    def output(self, root: "Module", output: Any, value: str) -> Any:
        """The output as it is.

        Raises:
            Refused: A trace was given up during the forward that made it.
        """
        traced = self._traced.get(root)
        if traced is not None and traced.failure is not None:
            raise Refused(traced.failure)
        return output

    def change(self, value: str) -> Change:
        match value:
            case "eager":
                return Change("# call the model as it is")
            case "compile":
                return Change("model = torch.compile(model)")
            case "jit_script":
                return Change("model = torch.jit.script(model)")
            case "jit_trace":
                return Change("model = torch.jit.trace(model, example_inputs)  # one for training only")
            case "jit_hybrid":
                return Change(
                    "model.backbone = torch.jit.trace(model.backbone, example_inputs)"
                    "  # the largest child; one for training only"
                )
        return Change(f'model = torch.compile(model, mode="{_mode(value)}")')

    def _compiled(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """The forward compiled; of a root with repeated blocks these instead, if that is the region."""
        import torch

        how: dict[str, Any] = {"mode": _mode(value), "dynamic": self._dynamic}
        blocks = repeated_blocks(root) if self._region == "blocks" else []
        with warnings.catch_warnings():  # torch's compiler imports what torch marks as deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            for block in blocks:
                block.compile(**how)
            compiled: Callable[..., Any] = function if blocks else torch.compile(function, **how)
        return compiled


def _mode(value: str) -> str | None:
    """torch's name of the mode; ``None`` for its default."""
    return value.removeprefix(COMPILE).removeprefix("-") or None


def require_compiler(profile: Profile) -> None:
    """For knobs that act only beside a compiled execution.

    Raises:
        Refused: `torch.compile` cannot be tried on this run or machine.
    """
    Execution().check(COMPILE, profile)


def _refusal(value: str, profile: Profile) -> str | None:
    if value in JIT and profile.target_kind == "script":
        return NO_JIT_IN_SCRIPTS
    on_cpu = not profile.device.startswith("cuda")
    if value.startswith(COMPILE) and on_cpu and not profile.machine.has_compiler:
        return "no C++ compiler was found, which torch.compile needs on a CPU"
    return None
