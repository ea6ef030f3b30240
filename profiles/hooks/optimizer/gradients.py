"""What backwards of a few steps compute twice, and which of their gradients no update uses."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.observed import GradientFacts, Location
from advisor.profiles.hooks.tensors import each_tensor
from advisor.profiles.hooks.user_lines import user_location

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

NODES = 20_000  # of one graph; a larger one is not followed
UPDATES = 6  # whose backwards are followed; those of the steps that are left are sampled undisturbed
PASSES = 64  # backwards that are followed
SHORT_NS = 20_000_000  # of a backward, below which following it changes where its time goes
LEAF = "AccumulateGrad"  # the node that writes a gradient


@dataclass
class _Pass:
    """One backward: its nodes by number, and what became of the gradients of its leaves."""

    location: Location | None
    period: int
    following: list[list[int]]
    leaves: dict[int, int]  # node to parameter, by identity
    again: set[int]  # nodes that an earlier backward of the same update went through
    spent_ns: list[int]
    used: set[int] = field(default_factory=set)
    thrown: set[int] = field(default_factory=set)

    def again_ns(self) -> int:
        """Time of the nodes that were gone through before."""
        return sum(self.spent_ns[node] for node in self.again)

    def thrown_ns(self, unused: set[int]) -> int:
        """Time of the nodes that lead to nothing but parameters whose gradients are not used."""
        trains = [False] * len(self.following)
        for node in reversed(range(len(self.following))):  # a node comes before those that it leads to
            leaf = self.leaves.get(node)
            trains[node] = any(trains[each] for each in self.following[node]) or (
                leaf is not None and leaf not in unused
            )
        return sum(spent for spent, used in zip(self.spent_ns, trains, strict=True) if not used)


class Gradients:
    """Follows the graphs of backwards, between updates, while somebody inspects a few steps.

    A backward through nodes of an earlier one adds to the same gradients what one backward of the sum would
    have brought. Gradients that are zeroed before their parameters were updated, after the same backward
    served another update, were computed in vain. Second derivatives are left alone, and updates that call
    backward themselves.

    Attributes:
        following: While set, backwards are followed.
    """

    def __init__(self, updates: Callable[[], int]) -> None:
        self._updates = updates
        self.following = self._within = False
        self._short = True
        self._passes: list[_Pass] = []
        self._met: set[Any] = set()  # nodes of this period; held, or torch makes new objects for them
        self._period = -1
        self._kept: dict[int, tuple[Tensor, int, int, list[_Pass]]] = {}

    def inspect(self, on: bool) -> None:
        """Begin or end following backwards, at a step border."""
        self.following = on
        self._met.clear()
        self._kept.clear()
        if on:
            self._passes.clear()

    @contextmanager
    def backward(self, tensors: Any) -> Iterator[None]:
        """One that runs inside the block, outside of any update; a plain one, without second derivatives."""
        if not self.following or self._enough():
            yield
            return
        if self._period != self._updates():
            self._period = self._updates()
            self._met.clear()
        added = self._look_at_kept()
        nodes = _in_order(each.grad_fn for each in each_tensor(tensors))
        if len(nodes) > NODES:
            self.following = False
            yield
            return
        number = {node: place for place, node in enumerate(nodes)}
        leaves = {place: node.variable for node, place in number.items() if LEAF in node.name()}
        following = [[number[each] for each, _ in node.next_functions if each in number] for node in nodes]
        again = {number[node] for node in nodes if node in self._met} if added else set()
        spent = [0] * len(nodes)
        taken = _Pass(
            user_location(), self._period, following, {k: id(v) for k, v in leaves.items()}, again, spent
        )
        self._met.update(nodes)
        self._within = True
        try:
            with _timed(nodes, spent):
                yield
        finally:
            self._within = False
        self._passes.append(taken)
        self._short = sum(spent) < SHORT_NS
        for leaf in leaves.values():
            earlier = self._kept[id(leaf)][3] if id(leaf) in self._kept else []
            if leaf.grad is not None:
                self._kept[id(leaf)] = leaf, id(leaf.grad), leaf.grad._version, [*earlier, taken]

    def at_work(self) -> bool:
        """Whether a short backward is being followed, which takes longer than it would alone."""
        return self._within and self._short

    def _enough(self) -> bool:
        return len(self._passes) >= PASSES or (
            self._period != self._updates() and len({each.period for each in self._passes}) >= UPDATES
        )

    def updated(self, optimizer: "Optimizer") -> None:
        """These parameters were updated: what their gradients hold was used."""
        self._met.clear()
        for group in optimizer.param_groups if self._kept else ():
            for parameter in group["params"]:
                if id(parameter) in self._kept:
                    for taken in self._kept.pop(id(parameter))[3]:
                        taken.used.add(id(parameter))

    def facts(self, modules: "Iterable[Module]") -> GradientFacts | None:
        """What was seen; ``None`` where no backward was followed to its update.

        Args:
            modules: Those that the program trains or calls, to name what gets gradients in vain.
        """
        self._settle()
        served = [each for each in self._passes if each.used]
        total = sum(sum(each.spent_ns) for each in self._passes)
        if not served or not total:
            return None
        periods = Counter(each.period for each in self._passes)
        updates = len(periods)
        again = [each for each in served if each.again]
        vain = {id(each): each.thrown_ns(each.thrown) for each in served if each.thrown}
        worst = max(served, key=lambda each: vain.get(id(each), 0))
        return GradientFacts(
            per_update=statistics.median(periods.values()),  # the last may have been cut short
            again=len(again) / updates,
            again_share=sum(each.again_ns() for each in again) / total,
            again_location=again[0].location if again else None,
            vain_share=sum(vain.values()) / total,
            vain_location=worst.location if vain else None,
            vain_module=_name_of(worst.thrown, modules) if vain else "",
        )

    def _settle(self) -> None:
        """Give each node the median of its times in all backwards alike: other programs stop some."""
        alike: dict[tuple[Location | None, int], list[_Pass]] = defaultdict(list)
        for each in self._passes:
            alike[each.location, len(each.following)].append(each)
        for passes in alike.values():
            usual = [
                int(statistics.median(times)) for times in zip(*(p.spent_ns for p in passes), strict=True)
            ]
            for each in passes:
                each.spent_ns = usual

    def _look_at_kept(self) -> bool:
        """Note which gradients are gone; whether all others are as the backwards of this update left them."""
        added = True
        for key, (leaf, identity, version, passes) in list(self._kept.items()):
            gradient = leaf.grad
            if gradient is not None and id(gradient) == identity and gradient._version == version:
                continue
            added = False
            if gradient is None or not bool(gradient.any()):
                for taken in passes:
                    taken.thrown.add(key)
                del self._kept[key]
        return added


def _in_order(roots: Iterable[Any]) -> list[Any]:
    """The nodes of a graph, each before those that it leads to; more than the limit where there are more."""
    done: dict[Any, None] = {}
    waiting = [(root, False) for root in roots if root is not None]
    entered: set[Any] = set()
    while waiting and len(entered) <= NODES:
        node, left = waiting.pop()
        if left:
            done[node] = None
        elif node not in entered:
            entered.add(node)
            waiting.append((node, True))
            waiting += [(each, False) for each, _ in node.next_functions if each is not None]
    return [*reversed(done)] if len(entered) <= NODES else [*entered]


@contextmanager
def _timed(nodes: list[Any], spent: list[int]) -> Iterator[None]:
    """Sum up the time of each node; a leaf's is not looked at."""
    handles = []
    for place, node in enumerate(nodes):
        if LEAF not in node.name():
            began, ended = _stop_watch(spent, place)
            with suppress(RuntimeError, AttributeError, NotImplementedError):  # a node that takes no hooks
                handles += [node.register_prehook(began), node.register_hook(ended)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _stop_watch(spent: list[int], place: int) -> tuple[Callable[[Any], None], Callable[[Any, Any], None]]:
    at = 0

    def began(gradients: Any) -> None:
        nonlocal at
        at = perf_counter_ns()

    def ended(inputs: Any, outputs: Any) -> None:
        spent[place] += perf_counter_ns() - at

    return began, ended


def _name_of(parameters: set[int], modules: "Iterable[Module]") -> str:
    """Class of the smallest module that holds them all."""
    holders = [
        (len(own), type(module).__name__)
        for module in modules
        if parameters <= (own := {id(each) for each in module.parameters()})
    ]
    return min(holders, default=(0, ""))[1]
