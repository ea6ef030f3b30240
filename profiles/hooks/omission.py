"""Leaving one part out of every step of the user's program, so that a replay can time what remains."""

from collections.abc import Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

from advisor.profiles.hooks.model.model_facts import parallel_kind

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

    from advisor.profiles.hooks.optimizer.losses import Losses
    from advisor.profiles.hooks.optimizer.optimizers import Optimizers


class Part(Protocol):
    """Something that can be left out. Both methods are called between two steps."""

    def begin(self) -> None:
        """Leave it out from now on.

        Raises:
            ValueError: It cannot be left out; the message is the reason. Nothing has been changed.
        """

    def end(self) -> None:
        """Bring it back, exactly as it was."""


class Omissions:
    """What is left out of every step at the moment: one part, or nothing.

    ``part`` is its name. Names: ``loader``, ``double``, ``half``, ``backward``, ``optimizer``,
    ``communication``, ``debug``, ``graph``; whoever knows how offers the part.
    """

    def __init__(self) -> None:
        self.part: str | None = None
        self._parts: dict[str, Part] = {}

    def offer(self, name: str, part: Part) -> None:
        """Make a part known."""
        self._parts[name] = part

    def omit(self, name: str | None) -> None:
        """Leave ``name`` out, and nothing else; ``None`` brings everything back.

        Raises:
            ValueError: This part cannot be left out, with the reason; nothing is left out then.
        """
        if name == self.part:
            return
        if self.part is not None:
            self._parts[self.part].end()
            self.part = None
        if name is None:
            return
        if name not in self._parts:
            raise ValueError(f"{name} is no part of a step that can be left out")
        self._parts[name].begin()
        self.part = name


class Updates:
    """The part ``optimizer``: an update does nothing, although every hook around it runs.

    Torch calls the update from inside a closure that it puts around each optimizer class's ``step``.
    Schedulers and programs hold that closure, so the function in it is replaced and nothing around it.
    """

    def __init__(self, optimizers: "Optimizers") -> None:
        self._optimizers = optimizers
        self._kept: list[tuple[Any, Any]] = []

    def begin(self) -> None:
        """No update changes a parameter from now on."""
        reason = self._optimizers.indispensable()
        if reason is not None:
            raise ValueError(reason)
        code = self._optimizers.step_code
        cells = {type(known): _update_cells(type(known), code) for known in self._optimizers.known}
        for kind, found in cells.items():
            if not found:
                raise ValueError(f"something else stands around the update of {kind.__name__}")
        for cell in {id(cell): cell for found in cells.values() for cell in found}.values():
            self._kept.append((cell, cell.cell_contents))
            cell.cell_contents = _nothing

    def end(self) -> None:
        """Update again."""
        for cell, function in self._kept:
            cell.cell_contents = function
        self._kept.clear()


class Backwards:
    """The part ``backward``: neither gradients nor updates are computed; what remains is forward and loss.

    Gradients of the last step stay in place, for programs that read, clip or check them.
    """

    def __init__(self, losses: "Losses", optimizers: "Optimizers", reductions: "Reductions") -> None:
        self._losses = losses
        self._optimizers = optimizers
        self._reductions = reductions
        self._updates = Updates(optimizers)

    def begin(self) -> None:
        """No backward runs from now on."""
        self._updates.begin()
        self._reductions.stop()  # a reducer that is prepared and never fed stops the next forward
        self._losses.omit(True)
        self._optimizers.keeps_gradients = True

    def end(self) -> None:
        """Compute gradients again."""
        self._optimizers.keeps_gradients = False
        self._losses.omit(False)
        self._reductions.resume()
        self._updates.end()


class Reductions:
    """The part ``communication``: each rank trains alone. Ranks drift apart, so for some 30 steps at most.

    Args:
        modules: Gives the root modules.
    """

    def __init__(self, modules: Callable[[], Sequence["Module"]]) -> None:
        self._modules = modules
        self._kept: list[tuple[Any, bool]] = []

    def begin(self) -> None:
        """Average no gradients from now on."""
        kinds = [parallel_kind(member) for module in self._modules() for member in module.modules()]
        if any(kind in ("FullyShardedDataParallel", "FSDPModule") for kind in kinds):
            raise ValueError("sharded parameters must be gathered in every step")
        if "DistributedDataParallel" not in kinds:
            raise ValueError("no model is wrapped in DistributedDataParallel")
        self.stop()

    def stop(self) -> None:
        """As ``begin``, where there is anything to stop."""
        for module in self._modules():
            for member in module.modules():
                if parallel_kind(member) == "DistributedDataParallel":
                    wrapper: Any = member
                    self._kept.append((wrapper, wrapper.require_backward_grad_sync))
                    wrapper.require_backward_grad_sync = False

    def end(self) -> None:
        """Average again."""
        self.resume()

    def resume(self) -> None:
        """Undo ``stop``."""
        for wrapper, asked in self._kept:
            wrapper.require_backward_grad_sync = asked
        self._kept.clear()


class Anomalies:
    """The part ``debug``: anomaly detection stays off, whatever the program asks for meanwhile."""

    NAMES = ("set_anomaly_enabled", "is_anomaly_enabled", "is_anomaly_check_nan_enabled")

    def __init__(self, seen: Callable[[], bool]) -> None:
        self._seen = seen
        self._originals: dict[str, Any] = {}
        self._asked = (False, True)

    def begin(self) -> None:
        """Switch it off, and answer the program as if it were on."""
        import torch

        if not (self._seen() or torch.is_anomaly_enabled()):
            raise ValueError("anomaly detection is off")
        self._originals = {name: getattr(torch, name) for name in self.NAMES}
        self._asked = (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        self._originals["set_anomaly_enabled"](False)
        replacements: dict[str, Callable[..., Any]] = {
            "set_anomaly_enabled": self._ask,
            "is_anomaly_enabled": lambda: self._asked[0],
            "is_anomaly_check_nan_enabled": lambda: self._asked[1],
        }
        for name, replacement in replacements.items():
            setattr(torch, name, replacement)

    def end(self) -> None:
        """As the program wants it at this moment."""
        import torch

        for name, original in self._originals.items():
            setattr(torch, name, original)
        torch.set_anomaly_enabled(*self._asked)

    def _ask(self, enabled: bool, check_nan: bool = True) -> None:
        self._asked = (enabled, check_nan)


class Graphs:
    """The part ``graph``: compiled functions run as they were written. Compiled code is kept for later."""

    def __init__(self) -> None:
        self._stance: Any = None

    def begin(self) -> None:
        """Skip every compiled graph from now on."""
        import sys

        import torch

        if "torch._dynamo" not in sys.modules:
            raise ValueError("the program compiles nothing")
        self._stance = torch.compiler.set_stance("force_eager")

    def end(self) -> None:
        """Use the graphs again, under the program's own stance."""
        self._stance.__exit__(None, None, None)
        self._stance = None


def _update_cells(optimizer: type["Optimizer"], code: CodeType) -> list[Any]:
    """The variables that hold the real update, one per class whose ``step`` has torch's hooks around it."""
    steps: list[Any] = [vars(kind).get("step") for kind in optimizer.__mro__]
    return [
        step.__closure__[code.co_freevars.index("func")]
        for step in steps
        if getattr(step, "__code__", None) is code
    ]


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for an update."""
