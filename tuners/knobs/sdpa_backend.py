"""Which kernel computes attention."""

import warnings
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.mechanisms.computed import calls_attention

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.nn.attention import SDPBackend

BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}
ON_CPU = ("flash", "math")
CALL = "scaled_dot_product_attention"
UNSEEN = f"the model was not seen to call {CALL}"
UNKNOWN = f"no operators were recorded, so whether the model calls {CALL} is not known"
COMPILED = "compiled code keeps the attention kernel that it was compiled with"
RECOMPUTED = "recomputed blocks run outside of the forward, where the kernel would be another one"
OWN = "the program chooses its attention kernel itself"


class SdpaBackend(Knob[str]):
    """Makes `scaled_dot_product_attention` use one kernel instead of torch's own choice.

    `flash`, `efficient` and `cudnn` never store the matrix of weights; `math` computes product, softmax
    and product. torch takes the first that fits the inputs, which need not be the fastest for a shape.
    On a CPU there are `flash` and `math` only, and torch's choice is `flash` wherever it fits. Most
    fused kernels of a GPU need 16-bit inputs; which of them allow masks differs.

    Losses differ by 1e-7 with `math`, `flash` equals the default; with dropout other masks are drawn.
    A kernel that cannot compute what the model asks for is refused, as is one that a program chooses
    itself. Compiled code keeps its kernel, and recomputed blocks would mix two, so both are refused.
    """

    semantics = Semantics.ROUNDING
    units = BOTH
    usual_gain = 0.03
    live = True
    acts_on = ("forward", "backward")

    def __init__(self) -> None:
        self._looks: weakref.WeakKeyDictionary[Module, _Look] = weakref.WeakKeyDictionary()

    def values(self) -> list[str]:
        return ["default", *BACKENDS]

    def present(self, profile: Profile) -> str:
        return "default"

    def choices(self, profile: Profile) -> list[str]:
        if calls_attention(profile) is None:
            raise Refused(UNKNOWN)
        tried = BACKENDS if profile.device.startswith("cuda") else ON_CPU
        for value in tried:
            self.check(value, profile)
        return [self.present(profile), *tried]

    def check(self, value: str, profile: Profile) -> None:
        if value == "default":
            return
        if value not in ON_CPU and not profile.device.startswith("cuda"):
            raise Refused(f"{value} attention exists on GPUs only")
        if calls_attention(profile) is False:
            raise Refused(UNSEEN)
        if profile.run is not None and profile.run.own_compile:
            raise Refused(COMPILED)
        if any(root.checkpointed for root in profile.roots):
            raise Refused(RECOMPUTED)

    def prepare(self, config: Config, present: Config) -> None:
        """Look at the first forward of every root once more.

        Raises:
            Refused: The configuration compiles the model, or recomputes parts of it.
        """
        self._looks.clear()
        if str(config.get("execution", "")).startswith("compile"):
            raise Refused(COMPILED)
        if config.get("activation_checkpointing", "none") not in ("none", "off"):
            raise Refused(RECOMPUTED)

    def forward(self, root: "Module", value: str) -> AbstractContextManager[Any] | None:
        """Only this kernel within one forward of the root; the first one is watched.

        Raises:
            Refused: No root has called attention in its first forward.
        """
        from torch.nn.attention import SDPBackend, sdpa_kernel

        if value == "default":
            return None
        backend: SDPBackend = getattr(SDPBackend, BACKENDS[value])
        if root not in self._looks:
            return self._watched(root, value, backend)
        if not any(look.calls for look in self._looks.values()):
            raise Refused(UNSEEN)
        return sdpa_kernel(backend)

    def output(self, root: "Module", output: Any, value: str) -> Any:
        """The output as it is.

        Raises:
            Refused: The kernel could not compute what the root asked for in the watched forward.
        """
        look = self._looks.get(root)
        if look is not None and look.refusal is not None:
            raise Refused(look.refusal)
        return output

    def change(self, value: str) -> Change:
        if value == "default":
            return Change("# leave the choice of the attention kernel to torch")
        return Change(
            "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
            f"with sdpa_kernel(SDPBackend.{BACKENDS[value]}):\n"
            "    output = model(input)"
        )

    @contextmanager
    def _watched(self, root: "Module", value: str, backend: "SDPBackend") -> Iterator[None]:
        from torch.nn.attention import sdpa_kernel

        look = _Look(value)
        with sdpa_kernel(backend), _watching(look, backend):
            yield
        self._looks[root] = look


@dataclass
class _Look:
    """What one forward showed: how often it called attention, and why the kernel cannot be used."""

    value: str
    calls: int = 0
    refusal: str | None = None


def _watching(look: _Look, backend: "SDPBackend") -> AbstractContextManager[Any]:
    """Meets every call of attention; one that the kernel cannot compute is left to torch's choice."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.overrides import TorchFunctionMode

    attend = torch.nn.functional.scaled_dot_product_attention
    every = [getattr(SDPBackend, name) for name in BACKENDS.values()]

    class Watching(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            named = kwargs or {}
            if function is not attend:
                return function(*args, **named)
            look.calls += 1
            if _enabled() != {backend}:
                look.refusal = OWN
                return attend(*args, **named)
            try:
                with warnings.catch_warnings():  # torch says of each kernel why it does not fit
                    warnings.simplefilter("ignore")
                    return attend(*args, **named)
            except RuntimeError as error:
                reason = str(error).strip().partition("\n")[0]
                look.refusal = f"{look.value} attention does not fit the model's inputs: {reason}"
            with sdpa_kernel(every):
                return attend(*args, **named)

    return Watching()


def _enabled() -> "set[SDPBackend]":
    """The kernels that torch may choose from now."""
    from torch.backends import cuda
    from torch.nn.attention import SDPBackend

    allowed = {
        SDPBackend.FLASH_ATTENTION: cuda.flash_sdp_enabled(),
        SDPBackend.EFFICIENT_ATTENTION: cuda.mem_efficient_sdp_enabled(),
        SDPBackend.CUDNN_ATTENTION: cuda.cudnn_sdp_enabled(),
        SDPBackend.MATH: cuda.math_sdp_enabled(),
    }
    return {backend for backend, is_allowed in allowed.items() if is_allowed}
