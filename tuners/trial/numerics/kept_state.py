"""What training changes, kept at a step border and brought back at a later one, as often as it is wanted.

What is kept: all modules, optimizers, schedulers and gradient scalers that live, with every tensor, number
and container that their attributes hold (parameters, buffers, optimizer state, learning rates, train or eval
mode, the stage of a scaler); gradients; other tensors that a step was seen to change in place (shadow
weights, sums for a log); generators of torch, numpy and ``random``, the process's own and all others that can
be reached. Of objects of the program's own classes and of its global variables only numbers are kept, such
as counters of steps.

What cannot be kept: local variables of the program, positions of its files and iterators, what other
processes hold. A program whose numbers depend on those does not repeat itself: whoever asks has to look.
"""

import gc
import random
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from torch import Tensor

MAPPINGS = (dict, OrderedDict, defaultdict)
SEQUENCES = (list, deque)
MOST_ENTRIES = 100_000  # of a container; larger ones are data, not state
NUMBERS = (bool, int, float)
PROGRAM = "__main__"  # the module of the program's own classes and variables
PIECE = 2**18  # elements of a tensor that are compared at once: what that takes of memory stays small
CHUNK = 10_000  # objects whose references are looked at together: their list stays small


class NotKept(Exception):
    """The state cannot be kept, or did not come back; the message is the reason."""


class InPlace:
    """Which tensors are changed in place from now on."""

    def __init__(self) -> None:
        self._versions = [(ref(tensor), tensor._version) for tensor in _living_tensors()]

    def changed(self) -> "list[Tensor]":
        """Those that still live and were changed since."""
        living = ((reference(), version) for reference, version in self._versions)
        return [tensor for tensor, version in living if tensor is not None and tensor._version != version]


class KeptState:
    """The state of the training in this process, as it was at the moment of making.

    Args:
        changing: Tensors to keep beside those of modules and optimizers.

    Attributes:
        bytes: Of the host copy: parameters, buffers, optimizer state and gradients, so 4 times the
            parameters for Adam.
    """

    def __init__(self, changing: "Iterable[Tensor]" = ()) -> None:
        self._mappings: list[tuple[Any, dict[Any, Any]]] = []
        self._sequences: list[tuple[Any, list[Any]]] = []
        self._numbers: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._tensors: dict[int, Tensor] = {}
        self._copies: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self._visit([*changing, *_stateful()])
        for attributes in _programs_own():
            numbers = {name: value for name, value in attributes.items() if type(value) in NUMBERS}
            self._numbers.append((attributes, numbers))
        self._modes = _modes()
        self._generators = Generators()
        held = list(self._tensors.values())
        self.bytes = sum(each.nbytes for each in held)
        self.bytes += sum(each.grad.nbytes for each in held if each.is_leaf and each.grad is not None)

    def copy(self) -> None:
        """Copy it to the host.

        Raises:
            NotKept: It has tensors that cannot be copied.
        """
        try:
            for tensor in self._tensors.values():
                gradient = tensor.grad if tensor.is_leaf else None
                copied = None if gradient is None else _on_host(gradient)
                self._copies.append((tensor, _on_host(tensor), copied))
            self.restore()
        except (RuntimeError, TypeError, ValueError) as error:
            raise NotKept(f"a tensor cannot be copied: {error}") from error

    def restore(self) -> None:
        """Bring it back; at the same place of the program's loop.

        Raises:
            NotKept: Something is not as it was.
            RuntimeError: A tensor has taken another shape.
        """
        import torch

        for mapping, entries in self._mappings:
            if not _same(mapping, entries):
                mapping.clear()
                mapping.update(entries)
        for sequence, items in self._sequences:
            if len(sequence) != len(items) or any(a is not b for a, b in zip(sequence, items, strict=True)):
                sequence.clear()
                sequence.extend(items)
        for attributes, numbers in self._numbers:
            attributes.update(numbers)
        with torch.no_grad():
            for tensor, copied, gradient in self._copies:
                tensor.copy_(copied)
                if tensor.is_leaf:
                    _give(tensor, gradient)
        self._generators.restore()
        problem = self._other()
        if problem is not None:
            raise NotKept(problem)

    def reseed(self, seed: int) -> None:
        """Go on with other random numbers."""
        self._generators.reseed(seed)

    def _other(self) -> str | None:
        """What is not as it was kept; ``None`` if all is."""
        if not all(_bitwise_equal(tensor, copied) for tensor, copied, _ in self._copies):
            return "a tensor did not take its former values"
        if not all(_same(mapping, entries) for mapping, entries in self._mappings):
            return "an attribute did not take its former value"
        if _modes() != self._modes:
            return "autocast or gradients are switched otherwise at this place of the loop"
        return None if self._generators.as_kept() else "a generator did not take its former state"

    def _visit(self, things: list[Any]) -> None:
        """Take note of all state that can be reached from some objects through their containers."""
        from torch import Tensor
        from torch.nn.parameter import is_lazy

        known = set()
        while things:
            thing = things.pop()
            kind = type(thing)
            if isinstance(thing, Tensor):
                has_values = not (thing.is_meta or thing.is_inference() or is_lazy(thing))
                if has_values:
                    self._tensors[id(thing)] = thing
                continue
            if not isinstance(thing, (tuple, *MAPPINGS, *SEQUENCES)) or id(thing) in known:
                continue
            if len(thing) > MOST_ENTRIES:
                continue
            known.add(id(thing))  # what holds it is held below: its identity is not used again
            if isinstance(thing, dict) and kind in MAPPINGS:
                self._mappings.append((thing, dict(thing)))
                things += [*thing.keys(), *thing.values()]
            elif kind in SEQUENCES:
                self._sequences.append((thing, list(thing)))
                things += thing
            elif isinstance(thing, tuple):
                things += thing


class Generators:
    """All generators of random numbers that can be reached, and their states at the moment of making."""

    def __init__(self) -> None:
        self._access = list(_generators())
        self._states = [read() for read, _, _ in self._access]

    def restore(self) -> None:
        """Draw from now on what was drawn from then on."""
        for (_, write, _), state in zip(self._access, self._states, strict=True):
            write(state)

    def reseed(self, seed: int) -> None:
        """Draw something else."""
        for place, (_, _, sow) in enumerate(self._access):
            sow(seed + place)

    def as_kept(self) -> bool:
        """Whether all are in their kept states."""
        return all(
            _equal_states(read(), state)
            for (read, _, _), state in zip(self._access, self._states, strict=True)
        )


Access = tuple[Callable[[], Any], Callable[[Any], Any], Callable[[int], Any]]
"""Of a generator: reads its state, writes it, and seeds it."""


def _generators() -> Iterator[Access]:
    import torch

    yield torch.get_rng_state, torch.set_rng_state, torch.default_generator.manual_seed
    if torch.cuda.is_initialized():
        yield torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all, torch.cuda.manual_seed_all
    yield random.getstate, random.setstate, random.seed
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        yield numpy.random.get_state, numpy.random.set_state, numpy.random.seed
    for each in _reachable_generators():
        if isinstance(each, torch.Generator):
            yield each.get_state, each.set_state, each.manual_seed
        elif isinstance(each, random.Random):
            yield each.getstate, each.setstate, each.seed
        elif hasattr(each, "get_state"):  # the older kind of numpy
            yield each.get_state, each.set_state, each.seed
        else:
            bits = each.bit_generator
            yield _read_bits(bits), _write_bits(bits), _sow_bits(bits)


def _reachable_generators() -> list[Any]:
    """Generators that a living container, object or function call holds, but for the process's own."""
    import torch

    numpy = sys.modules.get("numpy")
    kinds: tuple[type, ...] = (torch.Generator, random.Random)
    own = {id(each) for each in (torch.default_generator, random._inst, *torch.cuda.default_generators)}
    if numpy is not None:
        kinds += numpy.random.Generator, numpy.random.RandomState
        own.add(id(numpy.random.mtrand._rand))
    found: dict[int, Any] = {}
    living = gc.get_objects()
    for start in range(0, len(living), CHUNK):
        for each in gc.get_referents(*living[start : start + CHUNK]):
            if issubclass(type(each), kinds) and id(each) not in own:
                found[id(each)] = each
    return [each for each in found.values() if not issubclass(type(each), random.SystemRandom)]


def _read_bits(bits: Any) -> Callable[[], Any]:
    return lambda: bits.state


def _write_bits(bits: Any) -> Callable[[Any], None]:
    def write(state: Any) -> None:
        bits.state = state

    return write


def _sow_bits(bits: Any) -> Callable[[int], None]:
    def sow(seed: int) -> None:
        bits.state = type(bits)(seed).state

    return sow


def _equal_states(first: Any, second: Any) -> bool:
    """Whether two states of a generator are the same: tensors, arrays, and tuples or mappings of them."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_equal_states(first[key], second[key]) for key in first)
    if isinstance(first, (tuple, list)):
        return len(first) == len(second) and all(map(_equal_states, first, second))
    return bool((first == second).all()) if hasattr(first, "all") else bool(first == second)


def _stateful() -> list[dict[str, Any]]:
    """Attributes of all modules, optimizers, schedulers and scalers that live."""
    from torch.amp.grad_scaler import GradScaler
    from torch.nn import Module
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    kinds = (Module, Optimizer, LRScheduler, GradScaler)
    # type(), never isinstance(): that asks __class__, which lazy proxies answer by importing things
    return [vars(thing) for thing in gc.get_objects() if issubclass(type(thing), kinds)]


def _programs_own() -> list[dict[str, Any]]:
    """Attributes of objects of the program's own classes, and its global variables."""
    found = [thing for thing in gc.get_objects() if type(thing).__module__ == PROGRAM]
    attributes = [thing.__dict__ for thing in found if type(getattr(thing, "__dict__", None)) is dict]
    return [vars(sys.modules[PROGRAM]), *attributes]


def _living_tensors() -> "list[Tensor]":
    from torch import Tensor

    living = [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]
    return [tensor for tensor in living if not tensor.is_inference()]


def _modes() -> tuple[bool, ...]:
    import torch

    return torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")


def _on_host(tensor: "Tensor") -> "Tensor":
    return tensor.detach().to("cpu", copy=True)


def _same(mapping: dict[Any, Any], entries: dict[Any, Any]) -> bool:
    """Whether a mapping holds the very objects that it held, in their order."""
    if len(mapping) != len(entries):
        return False
    pairs = zip(mapping.items(), entries.items(), strict=True)
    return all(key is former and value is was for (key, value), (former, was) in pairs)


def _give(tensor: "Tensor", gradient: "Tensor | None") -> None:
    """Set a gradient; in the memory of the present one, if there is one like it."""
    present = tensor.grad
    if gradient is None or present is None or present.shape != gradient.shape:
        tensor.grad = None if gradient is None else gradient.to(tensor.device, copy=True)
    else:
        present.copy_(gradient)


def _bitwise_equal(tensor: "Tensor", copied: "Tensor") -> bool:
    """Whether a tensor equals its copy on the host, also where a value is not a number."""
    if tensor.shape != copied.shape or tensor.dtype != copied.dtype:
        return False
    tensor = tensor.detach()
    if tensor.dim() == 0:
        return _pieces_equal(tensor, copied)
    rows = max(1, PIECE * len(copied) // max(1, copied.numel()))
    pieces = zip(tensor.split(rows), copied.split(rows), strict=True)
    return all(_pieces_equal(now, before) for now, before in pieces)


def _pieces_equal(tensor: "Tensor", copied: "Tensor") -> bool:
    first = tensor.cpu()
    return bool(((first == copied) | ((first != first) & (copied != copied))).all())
