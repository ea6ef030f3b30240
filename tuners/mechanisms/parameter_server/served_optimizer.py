"""The optimizer of a worker: its step pushes gradients to the servers and pulls the new parameters.

Imported only where torch is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import Module
from torch.optim import Optimizer

from advisor.tuners.mechanisms.parameter_server.key_value import KeyValueStore
from advisor.tuners.mechanisms.parameter_server.keys import key_of
from advisor.tuners.mechanisms.parameter_server.links import HEAD, PING_S, PINGS, Link
from advisor.tuners.mechanisms.parameter_server.shard import plain_settings
from advisor.tuners.strategy import Build


class ServedOptimizer(Optimizer):
    """The program's optimizer with its updates made by servers.

    It has the parameter groups of the program's optimizer, so schedulers act on it as on that one: what they
    set travels with the next push. It has no state; that is on the servers.

    Args:
        build: Makes the program's optimizer.
        model: Its parameters that need a gradient are the keys; they begin with equal values on all workers.
        links: To the servers, in their order.
        message_bytes: Size of messages.
        ping_s, pings: When a server that does not answer is lost.

    Attributes:
        store: The keys.
        clip_norm: Limit of the norm of the gradients of the next step; with staleness 0 only.
        steps: Updates made.
    """

    def __init__(
        self,
        build: Build,
        model: Module,
        links: Sequence[Link],
        *,
        message_bytes: int = 2**22,
        ping_s: float = PING_S,
        pings: int = PINGS,
    ) -> None:
        program = build(model.parameters())
        super().__init__(program.param_groups, program.defaults)
        ordinals = {p: at for at, group in enumerate(self.param_groups) for p in group["params"]}
        self._served = {name: p for name, p in model.named_parameters() if p.requires_grad and p in ordinals}
        self._frozen = [p for p in ordinals if not p.requires_grad]
        self.store = KeyValueStore(
            links,
            [key_of(name, p, ordinals[p]) for name, p in self._served.items()],
            self._served,
            settings=plain_settings(self.param_groups),
            message_bytes=message_bytes,
            ping_s=ping_s,
            pings=pings,
        )
        self.clip_norm: float | None = None
        self.steps = 0
        self._before = (self.store.sent_bytes, self.store.received_bytes)
        self._traffic = (0, 0)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Push all gradients, and pull what the servers make of them.

        Raises:
            ServerLost: A server is gone, and there is no other.
            RuntimeError: A parameter has a gradient that had been frozen, or a server failed.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if any(parameter.grad is not None for parameter in self._frozen):
            raise RuntimeError("a parameter that needed no gradient at first has one; servers do not hold it")
        store = self.store
        store.settings = plain_settings(self.param_groups)
        for name, parameter in self._served.items():
            store.push(name, parameter.grad, store.version(name))
        if self.clip_norm is not None:
            store.scale(min(1.0, self.clip_norm / (store.norm() + 1e-6)))
            self.clip_norm = None
        store.pull()
        self.steps += 1
        self._traffic = (store.sent_bytes - self._before[0], store.received_bytes - self._before[1])
        return loss

    def traffic(self) -> dict[str, Any]:
        """Bytes that this worker sends and receives per step: as predicted, and as measured."""
        messages = self.store.messages()
        payload = sum(key.room for run in messages for key in run)
        asked = len({self.store.server_of(run[0].name) for run in messages})
        steps = max(1, self.steps)
        return {
            "bytes_per_step": payload + HEAD * (len(messages) + asked),
            "bytes_per_step_measured": self._traffic[0] / steps,
            "bytes_received_per_step": payload + HEAD * len(messages),
            "bytes_received_per_step_measured": self._traffic[1] / steps,
        }
