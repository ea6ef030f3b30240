"""The program's own ``GradScaler``: the loss before scaling, updates that it skips, and what it costs."""

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.tensors import scalar

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    from advisor.profiles.hooks.optimizer.optimizers import Optimizers

SETTLING = 100  # first updates, in which a scale that is too large is brought down
OUTCOMES = 4096  # updates whose outcome is kept


class Scaler:
    """Watches every enabled ``GradScaler``.

    Args:
        close: Called with the optimizer of a skipped update, whose losses were for nothing.

    Attributes:
        used: Whether a loss has been scaled.
    """

    def __init__(self, clock: Clock, scope: Scope, close: Callable[["Optimizer"], None]) -> None:
        from torch.amp.grad_scaler import GradScaler

        self._clock = clock
        self._scope = scope
        self._close = close
        self._scaled: tuple[Tensor, Tensor] | None = None
        self._optimizers: Optimizers | None = None
        self._outcomes: list[bool | Tensor] = []
        self._stepping = False
        self._attempts = 0
        self._spent_ns = 0
        self.used = False
        self.patches = [
            Patch(GradScaler, "scale", self._wrap_scale),
            Patch(GradScaler, "unscale_", self._wrap_unscale),
            Patch(GradScaler, "step", self._wrap_step),
        ]

    def attach(self, optimizers: "Optimizers") -> None:
        """Learn who knows how long updates take: without it their time counts as the scaler's."""
        self._optimizers = optimizers

    def facts(self, autocast: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Fields of ``RunFacts``; reads the device.

        Args:
            autocast: Types that the program's own autocast was seen to use.
        """
        skipped = [bool(outcome) for outcome in self._outcomes]
        settled = skipped[SETTLING:] or skipped
        return {
            "own_scaler": self.used,
            "scaler_updates": len(settled),
            "scaler_skipped": sum(settled),
            "scaler_on_bf16": "bfloat16" in autocast if self.used else None,
            "scaler_ms": self._spent_ns / self._attempts / 1e6 if self._attempts else None,
        }

    def before_scaling(self, loss: "Tensor") -> "Tensor":
        """The loss that was scaled into ``loss``, or ``loss`` itself."""
        pair, self._scaled = self._scaled, None
        return pair[1] if pair is not None and pair[0] is loss else loss

    def _wrap_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: Any, outputs: Any) -> Any:
            scaled = original(scaler, outputs)
            if scaler._enabled and self._scope.here():
                if not self.used:
                    self.used = True
                    if self._optimizers is not None:
                        self._optimizers.time_updates()
                loss = scalar(outputs)
                if loss is not None and loss is outputs:
                    self._scaled = (scaled, loss.detach())
            return scaled

        return scale

    def _wrap_unscale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unscale_(scaler: Any, optimizer: Any) -> Any:
            if self._stepping or not scaler._enabled or not self._scope.here():
                return original(scaler, optimizer)
            began = perf_counter_ns()
            result = original(scaler, optimizer)
            self._spent_ns += perf_counter_ns() - began
            return result

        return unscale_

    def _wrap_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not scaler._enabled or not self._scope.here():
                return original(scaler, optimizer, *args, **kwargs)
            before, updating = self._clock.updates, self._update_ns()
            began = perf_counter_ns()
            self._stepping = True
            try:
                result = original(scaler, optimizer, *args, **kwargs)
            finally:
                self._stepping = False
            self._spent_ns += perf_counter_ns() - began - (self._update_ns() - updating)
            self._attempts += 1
            skipped = self._clock.updates == before  # no hook fires for a skipped update
            if len(self._outcomes) < OUTCOMES:
                self._outcomes.append(skipped or _found_infinity(scaler, optimizer))
            if skipped:
                self._close(optimizer)
                self._clock.flag("skipped_update")
            return result

        return step

    def _update_ns(self) -> int:
        return 0 if self._optimizers is None else self._optimizers.update_ns


def _found_infinity(scaler: Any, optimizer: Any) -> "bool | Tensor":
    """Of an update that looks at its gradients itself, on the device: whether it found any."""
    if not getattr(optimizer, "_step_supports_amp_scaling", False):
        return False
    found = list(scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values())
    return found[0] if found else False
