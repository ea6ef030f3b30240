"""Which containers of the program have more entries after each step."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from io import IOBase
from itertools import islice
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.growing import GrowingVariable
from advisor.profiles.hooks.tensors import each_tensor, tensor_type
from advisor.profiles.hooks.user_lines import LIBRARIES, is_ours
from advisor.profiles.hooks.user_variables import Variable, attributes, filled_at, user_variables

if TYPE_CHECKING:
    from torch import Tensor

CONTAINERS = (list, dict, set, deque)
ARRAYS = ("ndarray", "Tensor")  # by the names of their classes: numpy may not be imported
LEAST = 0.02  # entries per step: one after fifty steps
SHOWN = 4
INSIDE = 2000  # entries that are looked at

_Key = tuple[str, str, str]


class GrowingContainers:
    """Compares the lengths of lists, dicts, sets, deques and arrays of the program at two borders of steps.

    Variables of its frames and modules are looked at, and the attributes of its own objects in them; no code
    of the program is run. A look takes some microseconds for each.

    Args:
        delivered: The tensors of a batch that a loader gave lately, as far as they are still alive.
    """

    def __init__(self, delivered: "Callable[[], Sequence[Tensor]]") -> None:
        self._delivered = delivered
        self._step = 0
        self._before: dict[_Key, int] | None = None

    def begin(self, step: int) -> None:
        """The first look, after ``step`` steps, on the thread that trains."""
        self._step = step
        self._before = {found.key: _entries(found.value) for found in _containers(sys._getframe(1))}

    def found(self, step: int, frame: FrameType) -> tuple[GrowingVariable, ...]:
        """Those seen from a frame that have grown since, the fastest first."""
        if self._before is None or step <= self._step:
            return ()
        grown: dict[_Key, tuple[float, Variable]] = {}
        for variable in _containers(frame):
            earlier = self._before.get(variable.key)
            rate = 0.0 if earlier is None else (_entries(variable.value) - earlier) / (step - self._step)
            if rate >= LEAST:
                grown.setdefault(variable.key, (rate, variable))
        fastest = sorted(grown.values(), key=lambda each: -each[0])[:SHOWN]
        return tuple(
            GrowingVariable(variable.name, rate, filled_at(variable), self._held(variable.value))
            for rate, variable in fastest
        )

    def _held(self, container: Any) -> str:
        """What the entries that came last are."""
        if not isinstance(container, CONTAINERS):
            return "tensors" if isinstance(container, tensor_type()) else ""
        entries = _latest(container)
        if not entries:
            return ""
        if type(entries[0]).__name__ == "RemovableHandle":
            return "hooks"
        if isinstance(entries[0], IOBase):
            return "files"
        tensors = [tensor for entry in entries for tensor in _tensors(entry)]
        if any(each.device.type == "cpu" and each.is_shared() for each in tensors[:1]):
            return "shared"
        given = {id(each) for each in self._delivered()}
        if any(id(each) in given for each in tensors):
            return "batch"
        return "tensors" if tensors else ""


def _containers(frame: FrameType | None) -> Iterator[Variable]:
    for variable in user_variables(frame):
        if _is_container(variable.value):
            yield variable
        elif _is_users(type(variable.value)):
            for name, part in list(attributes(variable.value).items()):
                if _is_container(part):
                    owner = type(variable.value)
                    yield Variable(f"{variable.name}.{name}", part, owner, variable.frame)
    yield from _handlers(frame)


def _handlers(frame: FrameType | None) -> Iterator[Variable]:
    """Those of loggers: each writes every message once more."""
    logging, users = sys.modules.get("logging"), None
    while frame is not None:
        if not is_ours(frame) and not frame.f_code.co_filename.startswith(LIBRARIES):
            users = frame
        frame = frame.f_back
    if logging is None or users is None:
        return
    for name, logger in list(logging.Logger.manager.loggerDict.items()):
        if type(logger) is logging.Logger:
            yield Variable(f"logging.getLogger({name!r}).handlers", logger.handlers, type(logger), users)


def _is_container(value: Any) -> bool:
    kind = type(value)
    is_array = kind.__name__ in ARRAYS and kind.__module__ in ("numpy", "torch")
    return isinstance(value, CONTAINERS) or (is_array and bool(value.shape))


def _entries(container: Any) -> int:
    return len(container) if isinstance(container, CONTAINERS) else int(container.shape[0])


def _is_users(kind: type) -> bool:
    """Whether the class is one of the program's own: its file is no library's."""
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) if type(module) is ModuleType else None
    return file is not None and not issubclass(kind, ModuleType) and not file.startswith(LIBRARIES)


def _latest(container: Any) -> list[Any]:
    """Its entries, the last one first; not those of a set, which has no order."""
    if isinstance(container, set):
        return []
    entries = reversed(container.values()) if isinstance(container, dict) else reversed(container)
    return list(islice(entries, INSIDE))


def _tensors(entry: Any) -> "list[Tensor]":
    found = list(each_tensor(entry)) if type(entry) in (list, tuple, dict) else [entry]
    return [each for each in found if isinstance(each, tensor_type())]
