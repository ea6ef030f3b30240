"""What the attributes of a dataset are, as far as that is quickly told: whether a program changes them."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from types import ModuleType
from typing import Any

from advisor.profiles.hooks.tensors import tensor_type

PLAIN = (type(None), bool, int, float, complex, str, bytes)
MOST = 2000  # values, which take about a millisecond
DEPTH = 5  # of attributes in attributes: dataset.dataset.transform.transforms[0].p
SAMPLED = 32  # entries of a longer list or array

State = dict[str, object]


def state_of(dataset: Any, collate: Any) -> State:
    """Plain values, and samples of arrays, that a dataset and the objects in it hold, by path.

    So too what the function that joins items holds, but not what is in its objects, such as tokenizers. No
    code of the program is run. What processes share is left out: workers see it change.
    """
    state: State = {}
    seen: set[int] = set()
    pending = deque([("dataset", dataset, 0), ("collate_fn", collate, DEPTH - 1)])
    while pending and len(state) < MOST and len(seen) < MOST:
        path, thing, depth = pending.popleft()
        told = _told(thing)
        if told is not None:
            state[path] = told
        elif depth < DEPTH and id(thing) not in seen:
            seen.add(id(thing))
            if type(thing) in (list, tuple, dict):
                state[path] = len(thing)
            pending.extend((f"{path}.{name}", part, depth + 1) for name, part in parts_of(thing))
    return state


def first_difference(before: State, after: State) -> str | None:
    """The name of an attribute that differs, such as ``dataset.epoch``; ``None`` where none does."""
    for path in (*before, *after):
        one, other = before.get(path), after.get(path)
        if one != other and repr(one) != repr(other):  # NaN equals NaN
            return path
    return None


def _told(thing: Any) -> object:
    """What stands for a value of which no parts are looked at; ``None`` where parts are."""
    kind = type(thing)
    if kind in PLAIN:
        return kind.__name__, thing
    if issubclass(kind, tensor_type()):
        return _tensor(thing)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        sample = [] if thing.dtype.hasobject else thing.flat[:: max(1, thing.size // SAMPLED)].tolist()
        return thing.shape, str(thing.dtype), sample
    return ("definition", id(thing)) if issubclass(kind, type | ModuleType) else None


def _tensor(tensor: Any) -> object:
    import torch

    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    if not plain or tensor.device.type != "cpu" or not tensor.is_contiguous() or tensor.is_shared():
        return "tensor"
    values = tensor.detach().view(-1)
    return tuple(tensor.shape), str(tensor.dtype), values[:: max(1, len(values) // SAMPLED)].tolist()


def parts_of(thing: Any) -> Iterable[tuple[str, Any]]:
    """Attributes, or entries of a list, tuple or dict; of long ones some."""
    kind = type(thing)
    if kind in (list, tuple):
        return [(str(at), thing[at]) for at in range(0, len(thing), max(1, len(thing) // SAMPLED))]
    if kind is dict:
        return [(str(name), part) for name, part in islice(thing.items(), SAMPLED) if type(name) in PLAIN]
    try:  # not vars(), which asks the program's own __getattr__
        attributes = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return ()
    return [(name, part) for name, part in attributes.items() if type(name) is str]
