"""Calls that make the host wait for the device, or would on one, with the line that makes them.

Tensor methods are replaced for a short window in which nothing is timed: each call then costs half a
microsecond more. Indexing with masks, ``where`` and ``unique`` call no method and are not seen.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from advisor.profiles.facts.observed import Location, SyncPoint
from advisor.profiles.hooks.patches import Patch, Scope, untraced
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.user_lines import user_location

METHODS = (
    "item", "tolist", "numpy", "cpu", "nonzero", "__float__", "__int__", "__bool__", "__index__",
    "__format__", "__repr__",
)  # fmt: skip
MOST = 50  # places told
PRINTING = (
    "advisor.profiles.hooks.surroundings.logs"  # hands print() on: a tensor printed there is the program's
)
MADE_BY = {"torch.optim": "optimizer", "torch.amp": "optimizer", "torch.utils.data": "loader"}


@dataclass
class _Tally:
    """What one place has cost so far."""

    count: int = 0
    blocked_ns: int = 0


class Syncs:
    """Counts blocking calls of the training thread between ``install`` and ``remove``.

    Of nested calls (printing a tensor reads its numbers) only the outermost counts. Where the program
    uses a device, a call counts if its tensor lies there.
    """

    def __init__(self, clock: Clock, scope: Scope) -> None:
        import torch
        from torch.cuda import streams

        self._clock = clock
        self._scope = scope
        self._is_compiling = torch.compiler.is_compiling
        self._inside = False
        self._on_device = False
        self._tallies: dict[tuple[str, Location | None, str], _Tally] = {}
        self.patches = [
            *(Patch(torch.Tensor, name, self._wrapping(name.strip("_"), self._waits)) for name in METHODS),
            Patch(torch.Tensor, "to", self._wrapping("to", self._leaves)),
            *(
                Patch(owner, name, self._wrapping(name, lambda args, kwargs: True))
                for owner, name in (
                    (torch.cuda, "synchronize"), (torch.cuda, "empty_cache"),
                    (streams.Stream, "synchronize"), (streams.Event, "synchronize"),
                )
            ),
        ]  # fmt: skip

    def install(self) -> None:
        """Count from now on, from nothing."""
        import torch

        self._tallies.clear()
        self._on_device = torch.cuda.is_initialized()
        for patch in self.patches:
            patch.install()

    def remove(self) -> None:
        """Count no more; every method is again what it was."""
        for patch in self.patches:
            patch.remove()

    def facts(self, steps: int) -> tuple[SyncPoint, ...]:
        """What was counted in a window of so many steps, the longest waits first.

        ``blocked_ms`` is left out where the program used no device: nothing was waited for.
        """
        steps = max(1, steps)
        order = sorted(self._tallies.items(), key=lambda each: (-each[1].blocked_ns, -each[1].count))
        return tuple(
            SyncPoint(
                kind=kind,
                location=place,
                count_per_step=tally.count / steps,
                blocked_ms=tally.blocked_ns / steps / 1e6 if self._on_device else None,
                where=where,
            )
            for (kind, place, where), tally in order[:MOST]
        )

    def _wrapping(
        self, kind: str, waits: Callable[[tuple[Any, ...], dict[str, Any]], bool]
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def blocking(*args: Any, **kwargs: Any) -> Any:
                if self._inside or self._is_compiling() or not self._scope.here() or not waits(args, kwargs):
                    return original(*args, **kwargs)
                self._inside = True
                began = time.perf_counter_ns()
                try:
                    return original(*args, **kwargs)
                finally:
                    self._inside = False
                    self._count(kind, time.perf_counter_ns() - began)

            return untraced(blocking)

        return make

    def _waits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return not self._on_device or args[0].device.type not in ("cpu", "meta")

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether ``to`` copies to the host, and waits for it.

        On a run without a device ``x.to(device)`` is what brings a batch to one elsewhere: it never counts.
        """
        tensor, *given = args
        if not self._on_device or tensor.device.type in ("cpu", "meta") or kwargs.get("non_blocking"):
            return False
        target = given[0] if given else kwargs.get("device", kwargs.get("other"))
        device = getattr(target, "device", target)  # another tensor says where by its own place
        return str(device).startswith("cpu")

    def _count(self, kind: str, blocked_ns: int) -> None:
        caller = sys._getframe(2)
        module = str(caller.f_globals.get("__name__", ""))
        if module.startswith("advisor.") and module != PRINTING:
            return
        place = user_location(caller)
        tally = self._tallies.setdefault((kind, place, self._where(module)), _Tally())
        tally.count += 1
        tally.blocked_ns += blocked_ns

    def _where(self, module: str) -> str:
        """Whose call it is: the program's own, or one that belongs to an update or to fetching a batch."""
        if self._clock.in_update:
            return "optimizer"
        if self._clock.phase == "input_wait":
            return "loader"
        return next((where for name, where in MADE_BY.items() if module.startswith(name)), "user")
