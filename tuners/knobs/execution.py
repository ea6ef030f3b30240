"""How a model's forward is executed: eagerly, compiled, or by TorchScript."""

import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.base.unit import BOTH
from advisor.profiles.events import Request
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics, offered
from advisor.tuners.mechanisms.blocks import repeated_blocks
from advisor.tuners.mechanisms.compiling import COMPILE, FREEZING, mode_of
from advisor.tuners.mechanisms.forms.artefact import describe
from advisor.tuners.mechanisms.forms.form import Source
from advisor.tuners.mechanisms.forms.remembering import refuse_memory
from advisor.tuners.mechanisms.forms.torchscript_form import torchscript_form
from advisor.tuners.mechanisms.torchscript import Hybrid, Traced, scripted

if TYPE_CHECKING:
    from torch.nn import Module

FOR_CUDA = ("compile-reduce-overhead", "compile-max-autotune-no-cudagraphs", "compile-max-autotune")
JIT = ("jit_script", "jit_trace", "jit_hybrid")
FREEZE = "jit_freeze"  # of a model that only answers
SERVED = ("jit_script", "jit_trace", FREEZE)
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

    `jit_freeze` is for a model that only answers: its trace has the weights as constants, so that torch folds
    batch norms into convolutions and fuses what follows. Published for a trace with freezing: 1.10 to 1.16.
    Of such a model `jit_script` and `jit_trace` leave their file, too, and there is no `jit_hybrid`.
    `compile-freezing` is `compile` with the weights as constants, which are then laid out for
    their kernels.

    `fullgraph=True` is no value: it computes what `compile` computes, or fails. How many breaks there are is
    told of a trial that compiles, and `graph_breaks` names their lines in a program that compiles.

    Compiled code draws other random numbers, so a model that samples is compared with the noise between
    seeds. Varying shapes compile again; after eight times torch goes back to eager.
    """

    semantics = Semantics.ROUNDING
    units = BOTH
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
        return ["eager", COMPILE, FREEZING, *FOR_CUDA, *JIT, FREEZE]

    def present(self, profile: Profile) -> str:
        own = profile.run is not None and profile.run.own_compile
        if own or any(root.already_compiled for root in profile.roots):
            raise Refused("torch.compile is already called by the program")
        if any(root.scripted for root in profile.roots):
            raise Refused("the model is already scripted or traced")
        return "eager"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        tried: tuple[str, ...] = (COMPILE, *JIT)
        if profile.device.startswith("cuda"):
            tried = (COMPILE, *FOR_CUDA, *JIT)
        if profile.serves:
            tried = (*tried, FREEZE, FREEZING)
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
        if value == FREEZING:
            _freeze_weights()
        if value.startswith(COMPILE):
            return self._compiled(function, root, value)
        if not root.training:  # that is for `serve`
            return function
        if value == "jit_script":
            return scripted(function, root)
        if value in ("jit_trace", "jit_hybrid"):
            kind = Traced if value == "jit_trace" else Hybrid
            traced = self._traced[root] = kind(function, root)
            return traced
        return function

    def serve(
        self, function: Callable[..., Any], root: "Module", request: Request, value: str
    ) -> Callable[..., Any]:
        """The model as TorchScript, traced with the first request; `jit_freeze` makes its weights constants.

        Raises:
            Refused: TorchScript cannot take it.
        """
        if value not in SERVED:
            return function
        source = Source(root, (request.args, request.kwargs), request.folder)
        if value != "jit_script":
            refuse_memory(source)
        form = torchscript_form(source, value, function)
        describe(form, request.folder)
        return form.call

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
            case "compile-freezing":
                return Change(
                    "torch._inductor.config.freezing = True  # for calls without gradients\n"
                    "model = torch.compile(model)"
                )
            case "jit_script":
                return Change("model = torch.jit.script(model)")
            case "jit_trace":
                return Change("model = torch.jit.trace(model, example_inputs)  # one for training only")
            case "jit_freeze":
                return Change("model = torch.jit.freeze(torch.jit.trace(model.eval(), example_inputs))")
            case "jit_hybrid":
                return Change(
                    "model.backbone = torch.jit.trace(model.backbone, example_inputs)"
                    "  # the largest child; one for training only"
                )
        return Change(f'model = torch.compile(model, mode="{mode_of(value)}")')

    def _compiled(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """The forward compiled; of a root with repeated blocks these instead, if that is the region."""
        import torch

        how: dict[str, Any] = {"mode": mode_of(value), "dynamic": self._dynamic}
        blocks = repeated_blocks(root) if self._region == "blocks" else []
        with warnings.catch_warnings():  # torch's compiler imports what torch marks as deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            for block in blocks:
                block.compile(**how)
            compiled: Callable[..., Any] = function if blocks else torch.compile(function, **how)
        return compiled


def _freeze_weights() -> None:
    """For all that is compiled in this process for calls without gradients."""
    from torch._inductor import config

    config.freezing = True


def require_compiler(profile: Profile) -> None:
    """For knobs that act only beside a compiled execution.

    Raises:
        Refused: `torch.compile` cannot be tried on this run or machine.
    """
    Execution().check(COMPILE, profile)


def _refusal(value: str, profile: Profile) -> str | None:
    if value in (FREEZE, FREEZING) and not profile.serves:
        return "a training changes the weights that it would freeze"
    if value == "jit_hybrid" and profile.serves:
        return "a model that only answers is traced as a whole: jit_trace"
    if value in JIT and profile.target_kind == "script" and not profile.serves:
        return NO_JIT_IN_SCRIPTS
    on_cpu = not profile.device.startswith("cuda")
    if value.startswith(COMPILE) and on_cpu and not profile.machine.has_compiler:
        return "no C++ compiler was found, which torch.compile needs on a CPU"
    return None
