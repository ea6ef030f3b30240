"""How the communication of a strategy grows with ranks and nodes, by the laws of its collectives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from advisor.base.errors import UsageError, clean
from advisor.planning.fabric import Fabric, Link
from advisor.planning.law import Law, Work
from advisor.planning.laws import LAWS
from advisor.planning.places import Measured, Place

USUAL = ("ring", "double_binary_tree")  # an all-reduce; NCCL takes the cheaper of them by size
OF_STRATEGY = {
    "ddp": USUAL,
    "data_parallel": ("broadcast",),  # torch.nn.DataParallel: gradients to one device, parameters from it
    "zero": ("zero",),
    "fsdp": ("fsdp",),
    "hybrid": ("hybrid",),
    "local_sgd": ("local_updates",),
    "parameter_server": ("parameter_server",),
    "async_parameter_server": ("async_parameter_server",),
    "tensor_parallel": ("tensor_parallel",),
    "pipeline": ("gpipe",),  # 1F1B has the same bubble
}
"""Laws by strategy."""
TREES = frozenset({"tree", "double_binary_tree"})
EVERY_RANK_LEAVES = frozenset({"hierarchical", "hybrid"})  # each with its share: they divide a node's link

MICRO_BATCHES = 4  # of a pipeline where nothing tells: as the knob `pipeline_chunks` has it

NOTHING = Link(0.0, float("inf"))
BYTES = Work(gradient_bytes=1.0, activation_bytes=1.0, layers=1)
MESSAGES = Work(layers=1)


AS_MEASURED = "as measured"  # the strategy of points that tell none


def kind_of(strategy: str) -> str:
    """A strategy by the name of its laws, without its settings: ``parameter_server, 2 servers``."""
    return strategy.partition(",")[0]


def chosen(found: Mapping[str, Measured], strategy: str | None) -> dict[str, Measured]:
    """Of what was measured one strategy, or all; of a points file it is how ranks trained there.

    Raises:
        UsageError: Nobody measured it, or its laws are not known.
    """
    if strategy in (None, "all"):
        return dict(found)
    if AS_MEASURED in found and strategy in OF_STRATEGY:
        return {strategy: found[AS_MEASURED]}
    if strategy in found:
        return {strategy: found[strategy]}
    of_file = AS_MEASURED in found
    name = clean(strategy, 60)
    raise UsageError(
        f"no laws are known of {name}" if of_file else f"no strategy {name} was measured",
        hint=f"one of {', '.join(sorted(OF_STRATEGY if of_file else found))}",
    )


@dataclass(frozen=True)
class Scheme:
    """Coefficients of what is fitted: seconds of all bytes, and of one message.

    Attributes:
        names: Of the laws.
        servers: Of parameters; as many as ranks where it is ``None``, as is usual on clusters.
        known: Whether the way of training is known, and not taken for an all-reduce.
        micro_batches: Of a batch, if ranks are stages of a pipeline.
    """

    names: tuple[str, ...] = USUAL
    servers: int | None = None
    known: bool = False
    micro_batches: int = MICRO_BATCHES

    @classmethod
    def of(cls, strategy: str, servers: int | None = None, micro_batches: int | None = None) -> "Scheme":
        """The laws of a strategy; those of an all-reduce where none is known."""
        names = OF_STRATEGY.get(kind_of(strategy))
        parts = micro_batches or MICRO_BATCHES
        return cls(servers=servers) if names is None else cls(names, servers, True, parts)

    @property
    def has_barrier(self) -> bool:
        """Whether ranks wait for the slowest in each step."""
        return "async_parameter_server" not in self.names

    @property
    def has_stages(self) -> bool:
        """Whether ranks are stages of a pipeline."""
        return "gpipe" in self.names

    def bubble(self, place: Place) -> float:
        """Idle time of a stage over its work, while a pipeline fills and drains; zero without one."""
        if not self.has_stages:
            return 0.0
        work = Work(compute_s=1.0, micro_batches=self.micro_batches)
        return LAWS["gpipe"].seconds(work, Fabric(place.ranks, 1, NOTHING, NOTHING))

    @property
    def told(self) -> tuple[tuple[str, Law], ...]:
        """The laws by name."""
        return tuple((name, LAWS[name]) for name in self.names)

    def bytes(self, place: Place) -> float:
        """How much longer the cheapest law's bytes take than those of two ranks (on two nodes if any).

        Each stage of a pipeline passes on as much, however many there are.
        """
        if self.has_stages:
            return float(place.ranks > 1)
        two = Place(2, min(2, place.nodes))
        return min(map(self._bytes(place), self.names)) / min(map(self._bytes(two), self.names))

    def levels(self, place: Place) -> float:
        """Messages one after the other across nodes in trees."""
        return sum(_messages(name, place) for name in self.names if name in TREES)

    def chain(self, place: Place) -> float:
        """Messages one after the other across nodes in all other laws."""
        if self.has_stages:
            return 2.0 * (place.nodes - 1)  # there and back over each border between nodes
        return sum(_messages(name, place) for name in self.names if name not in TREES)

    def _bytes(self, place: Place) -> Callable[[str], float]:
        """Of a law by name: inside a node while there is one, else what leaves it."""
        work = replace(BYTES, servers=self.servers or place.ranks)
        within = Link(0.0, 1.0) if place.nodes == 1 else NOTHING

        def seconds(name: str) -> float:
            leaving = place.per_node if name in EVERY_RANK_LEAVES else 1
            return LAWS[name].seconds(work, _fabric(place, within, Link(0.0, 1.0 / leaving)))

        return seconds


def _messages(name: str, place: Place) -> float:
    return LAWS[name].seconds(MESSAGES, _fabric(place, NOTHING, Link(1.0, float("inf"))))


def _fabric(place: Place, within: Link, across: Link) -> Fabric:
    """Nodes as full as the fullest."""
    return Fabric(place.per_node * place.nodes, place.nodes, within, across)
