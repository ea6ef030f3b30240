"""Copies from the host to an accelerator, which subscribers may make in their own way."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Run
from advisor.profiles.hooks.patches import Patch, Scope, untraced

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HOSTS = frozenset({"cpu", "meta"})
OF_MODELS = ("torch.nn.modules", "torch.optim")  # what moves parameters and states moves no batch


class Transfers:
    """Emits ``transfer`` for each tensor that the training thread copies to an accelerator.

    ``Tensor.to`` and ``Tensor.cuda`` are replaced only while somebody subscribes. What a subscriber
    returns is handed on to the method that was called, which has nothing left to do once it is there.

    Args:
        run: Receives the event.
        scope: What is watched.
        hosts: Types of devices that are no accelerator.
    """

    def __init__(self, run: Run, scope: Scope, hosts: frozenset[str] = HOSTS) -> None:
        import torch

        self._run = run
        self._scope = scope
        self._hosts = hosts
        self._watching = False
        self._installed = False
        self._inside = False
        self._is_compiling = torch.compiler.is_compiling
        self.patches = [
            Patch(torch.Tensor, "to", self._wrapping(_target_of_to)),
            Patch(torch.Tensor, "cuda", self._wrapping(_target_of_cuda)),
        ]

    def install(self) -> None:
        """Watch copies from now on, as far as somebody subscribes."""
        self._watching = True
        self.follow()

    def remove(self) -> None:
        """Watch no longer."""
        self._watching = False
        self.follow()

    def follow(self) -> None:
        """Take note of who subscribes now; to be called after each configuration, and at each step."""
        wanted = self._watching and "transfer" in self._run.events
        if wanted is self._installed:
            return
        self._installed = wanted
        for patch in self.patches:
            if wanted:
                patch.install()
            else:
                patch.remove()

    def _wrapping(
        self, target: Callable[[tuple[Any, ...], dict[str, Any]], "torch.device | None"]
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def moving(tensor: "Tensor", /, *args: Any, **kwargs: Any) -> Any:
                if self._inside or tensor.device.type != "cpu" or self._is_compiling():
                    return original(tensor, *args, **kwargs)
                device = target(args, kwargs) if self._emits() else None
                if device is None or device.type in self._hosts or _is_of_model(sys._getframe(1).f_globals):
                    return original(tensor, *args, **kwargs)
                self._inside = True
                try:
                    moved = self._run.transfer(tensor, device)
                finally:
                    self._inside = False
                return original(moved, *args, **kwargs)

            return untraced(moving)

        return make

    def _emits(self) -> bool:
        return "transfer" in self._run.events and self._scope.here()


def _is_of_model(caller: dict[str, Any]) -> bool:
    return str(caller.get("__name__", "")).startswith(OF_MODELS)


def _target_of_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> "torch.device | None":
    """Where ``tensor.to(...)`` is to bring it; ``None`` where only its type is to change."""
    given = args[0] if args else kwargs.get("device", kwargs.get("tensor"))
    return _device(getattr(given, "device", given))  # another tensor says where by its own place


def _target_of_cuda(args: tuple[Any, ...], kwargs: dict[str, Any]) -> "torch.device | None":
    given = args[0] if args else kwargs.get("device")
    if given is not None and not isinstance(given, int):
        return _device(given)
    import torch

    return torch.device("cuda", torch.cuda.current_device() if given is None else given)


def _device(given: Any) -> "torch.device | None":
    import torch

    if isinstance(given, torch.device):
        return given
    if not isinstance(given, str | int):
        return None
    try:
        return torch.device(given)
    except RuntimeError:  # torch says so itself, in its own words
        return None
