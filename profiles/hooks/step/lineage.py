"""What the program's own lines compute in a step: how often, from what, and whether it was computed before.

Every function of torch that Python calls is met by a function mode, for a few steps in which nothing is timed
for any comparison. Each tensor gets a number for its value: results are numbered by function and arguments,
so equal numbers mean equal values without reading them (value numbering, as compilers do it); what comes
from elsewhere is numbered by identity and version, or by content where it is made anew. The same pass
counts how many calls of a line depend on each other: a loop over rows has none, a recurrence all of them.
"""

import re
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.observed import LineCalls, Location
from advisor.profiles.hooks.patches import Patch
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.demand import Demand
from advisor.profiles.hooks.step.products import Products
from advisor.profiles.hooks.step.tally import Tally, spared
from advisor.profiles.hooks.user_lines import user_location

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 2  # the first fills the table, the second is counted
MOST_CALLS = 40_000  # of both together; beyond, nothing is said
DIGESTED = 65_536  # elements up to which content is read
SHOWN = 12  # lines told
LEAST_CALLS = 2  # of a line in a step, to be told for what depends on what
RANDOM = re.compile(r"rand|drop|bernoulli|multinomial|normal(?!ize)|uniform|poisson|exponential|empty|rrelu")
FOREIGN = ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer")  # make tensors of what is none
SKIPPED = ("backward", "optimizer")  # phases that the program's lines only start
RUNNING = ("batch_norm", "instance_norm")  # write averages over batches, which record no graph
PARAMETRIZE = "torch/nn/utils/parametrize.py"

Site = tuple[Location, str]  # a line and a function that it calls
Entry = tuple[Any, tuple[int, int], int, dict[Site, int]]
"""A tensor, held weakly, its version, the number of its value, and the longest chains of calls behind it."""


class Lineage:
    """Numbers values and counts calls between ``start`` and ``stop``, of the thread that calls ``start``."""

    def __init__(self, clock: Clock) -> None:
        import torch

        self._clock = clock
        self._calls = 0
        self._step = 0
        self._numbers: dict[Any, int] = {}
        self._computed: dict[int, int] = {}  # the step in which a value was last computed, by its number
        self._known: dict[int, Entry] = {}
        self._writes: dict[int, int] = {}
        self._deepest: dict[Site, int] = {}
        self._first: dict[int, tuple[int, int]] = {}  # step and value in which a frozen weight was met first
        self._tallies: dict[tuple[Location, str], Tally] = {}
        self._demand = Demand()
        self._products = Products()
        self._phase_ns: dict[str, int] = {}
        self._mode: Any = None
        self._patches = [Patch(torch, name, self._wrap) for name in ("from_numpy", "frombuffer")]

    def start(self) -> None:
        """Look from now on, at a step border; from nothing."""
        self._clock.ask(True)
        for patch in self._patches:
            patch.install()
        self._mode = _mode(self)
        self._mode.__enter__()

    def next_step(self) -> None:
        """A step has ended: the next one is compared with it."""
        self._step += 1
        self._deepest.clear()
        self._tallies.clear()
        self._demand.clear()
        self._products.clear()
        self._phase_ns.clear()

    def stop(self) -> None:
        """Look no longer, at a step border."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._mode = None
            self._clock.ask(False)
            for patch in self._patches:
                patch.remove()

    def facts(self) -> tuple[LineCalls, ...]:
        """The lines of the last step with the most time, and those that computed anything again."""
        if self._calls > MOST_CALLS:
            return ()
        for made, read in self._demand.unread():
            self._tallies[made.site].unread(made, read)
        for site, less, order in self._products.found():
            self._tallies[site].reorder(less, order)
        lines = [tally.facts(*at, self._phase_ns) for at, tally in self._tallies.items()]
        lines.sort(key=lambda line: -max(line.share, line.repeated_share, spared(line)))
        return tuple(lines[:SHOWN])

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """One function of torch, called by the program."""
        phase = self._clock.phase or "other"
        self._calls += 1
        name = getattr(function, "__name__", "")
        if _in_place(name):
            self._write(args[0] if args else None)
        result = self._follow(function, name, phase, args, kwargs)
        if name in RUNNING:  # only now: what they are given is what was there before
            self._write([each for each in (*args, *kwargs.values()) if _is_plain(each)])
        return result

    def _follow(self, function: Callable[..., Any], name: str, phase: str, args: Any, kwargs: Any) -> Any:
        inputs = list(_tensors((args, kwargs.values())))
        if self._clock.between_steps or phase in SKIPPED or self._calls > MOST_CALLS:
            known = [(entry[2], each) for each in inputs if (entry := self._known.get(id(each)))]
            result = function(*args, **kwargs)
            self._demand.called(name, known, list(_tensors((result,))))
            return result
        key = self._key(name, args, kwargs)
        depths = _deepest(self._entry(each)[3] for each in inputs)
        began = time.perf_counter_ns()
        result = function(*args, **kwargs)
        spent = time.perf_counter_ns() - began
        outputs = list(_tensors((result,)))
        given = [(self._entry(each)[2], each) for each in inputs]
        passed = self._demand.called(name, given, outputs)
        if not outputs:
            return result
        if name in FOREIGN:
            for output in outputs:
                self._foreign(output)
            self._list(name, args, phase, spent)
            return result
        number = self._number(key)
        made = [(self._number((number, at)), output) for at, output in enumerate(outputs)]
        self._products.used(name, given, made)
        place = None if name == "__get__" else user_location(sys._getframe(2))
        if place is not None:
            site = (place, name)
            depths = {**depths, site: depths.get(site, 0) + 1}
            self._deepest[site] = max(self._deepest.get(site, 0), depths[site])
            self._phase_ns[phase] = self._phase_ns.get(phase, 0) + spent
            tally = self._tallies.setdefault((place, phase), Tally())
            before = None if _in_place(name) else self._computed.get(number)
            tally.add(name, spent, depths[site], before, self._step)
            tally.weights.update(id(each) for each in inputs if each.is_leaf and each.requires_grad)
            tally.frozen.update(id(each) for each in inputs if self._stays(each))
            tally.graphed |= any(output.requires_grad for output in outputs)
            tally.parametrized |= _under_parametrization()
            if len(made) == 1:
                self._demand.made(made[0][0], (place, phase), name, spent, outputs[0], passed)
                self._products.called(name, args, kwargs, given, made[0], (place, phase), spent)
        self._computed[number] = self._step
        for value, output in made:
            self._remember(output, value, depths)
        return result

    def _stays(self, weight: "Tensor") -> bool:
        """Whether this is a weight that gets no gradient, and is what it was in the step before."""
        import torch

        if weight.requires_grad or not isinstance(weight, torch.nn.Parameter):
            return False
        number = self._entry(weight)[2]
        step, before = self._first.setdefault(id(weight), (self._step, number))
        return step < self._step and before == number

    def _list(self, name: str, args: Any, phase: str, spent: int) -> None:
        """A tensor was made; count the numbers that came one by one from lists."""
        listed = _listed(args[0]) if args else 0
        place = user_location(sys._getframe(3)) if listed else None
        if place is not None:
            self._phase_ns[phase] = self._phase_ns.get(phase, 0) + spent
            tally = self._tallies.setdefault((place, phase), Tally())
            tally.add(name, spent, 0, None, self._step)
            tally.listed += listed

    def _key(self, name: str, args: Any, kwargs: Any) -> Any:
        if RANDOM.search(name) or "generator" in kwargs:
            return object()
        return name, self._token(args), tuple((each, self._token(kwargs[each])) for each in sorted(kwargs))

    def _token(self, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            return self._entry(value)[2]
        if isinstance(value, list | tuple):
            return tuple(map(self._token, value))
        if isinstance(value, int | float | str | bool | slice | None | torch.dtype | torch.device):
            return repr(value)
        return id(value)

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _entry(self, tensor: "Tensor") -> Entry:
        """What is known of a tensor; one that was not met before comes from outside."""
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] == self._version(tensor):
            return known
        if tensor.grad_fn is not None:
            self._demand.unseen()
        return self._remember(tensor, self._number(_content(tensor)), {})

    def _foreign(self, tensor: "Tensor") -> None:
        """Made of something that is no tensor, which may depend on all that was computed before."""
        self._remember(tensor, self._number(_content(tensor)), dict(self._deepest))

    def _remember(self, tensor: "Tensor", number: int, depths: dict[Site, int]) -> Entry:
        entry = weakref.ref(tensor), self._version(tensor), number, depths
        self._known[id(tensor)] = entry
        return entry

    def _write(self, written: Any) -> None:
        """What lies there changes; the version does not, where it is written through ``tensor.data``."""
        for tensor in _tensors((written,)):
            place = _storage(tensor)
            self._writes[place] = self._writes.get(place, 0) + 1

    def _version(self, tensor: "Tensor") -> tuple[int, int]:
        version = -1 if tensor.is_inference() else tensor._version
        return version, self._writes.get(_storage(tensor), 0)

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        from torch._C import DisableTorchFunction

        def foreign(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            with DisableTorchFunction():
                self._foreign(made)
            return made

        return foreign


def _mode(lineage: Lineage) -> Any:
    from torch.overrides import TorchFunctionMode

    class Following(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return lineage.call(function, args, kwargs or {})

    return Following()


def _tensors(values: Iterable[Any]) -> Iterator["Tensor"]:
    """All tensors in nested lists, tuples and dictionaries."""
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


def _listed(value: Any) -> int:
    """Numbers in a list of numbers, of lists, or of small arrays; of nested ones by the first of each."""
    if not isinstance(value, list | tuple) or not value:
        return 0
    first = value[0]
    inner = _listed(first) if isinstance(first, list | tuple) else getattr(first, "size", 1)
    return len(value) * inner if isinstance(inner, int) else 0


def _deepest(several: Iterable[dict[Site, int]]) -> dict[Site, int]:
    joined: dict[Site, int] = {}
    for each in several:
        if not joined:
            joined = each
        elif each is not joined:
            joined = joined | {site: max(depth, joined.get(site, 0)) for site, depth in each.items()}
    return joined


def _in_place(name: str) -> bool:
    """Whether a function changes its first argument: that has to be done each time."""
    return (name.endswith("_") and not name.endswith("__")) or name.startswith(("__i", "__set"))


def _is_plain(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and not value.requires_grad


def _storage(tensor: "Tensor") -> int:
    import torch

    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else id(tensor)


def _content(tensor: "Tensor") -> Any:
    """What tells a tensor from another one that may lie in its place later."""
    import torch

    plain = tensor.device.type == "cpu" and tensor.layout is torch.strided
    if tensor.requires_grad or not plain or tensor.numel() > DIGESTED:
        return object()
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor
    return str(tensor.dtype), tuple(tensor.shape), hash(data.numpy().tobytes())


def _under_parametrization() -> bool:
    frame: FrameType | None = sys._getframe(3)
    for _ in range(6):
        if frame is None:
            return False
        if frame.f_code.co_filename.endswith(PARAMETRIZE):
            return True
        frame = frame.f_back
    return False
