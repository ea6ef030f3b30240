"""Who talks to whom over what: ranks on nodes, and the links within a node and across."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A link as a straight line: a message of S bytes takes ``latency_s + S / bytes_per_s`` seconds."""

    latency_s: float
    bytes_per_s: float  # bus bandwidth, as nccl-tests' PERFORMANCE.md defines it


@dataclass(frozen=True)
class Fabric:
    """Ranks on equal nodes.

    Raises:
        ValueError: The ranks do not divide over the nodes.
    """

    ranks: int
    nodes: int
    within: Link  # between ranks of one node
    across: Link  # between nodes, as much as one rank gets

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.nodes < 1 or self.ranks % self.nodes:
            raise ValueError(f"{self.ranks} ranks do not divide over {self.nodes} nodes")

    @property
    def per_node(self) -> int:
        """Ranks on each node."""
        return self.ranks // self.nodes

    @property
    def slowest(self) -> Link:
        """What every step of a scheme waits for that takes no notice of nodes."""
        return self.across if self.nodes > 1 else self.within

    @property
    def one_node(self) -> "Fabric":
        """The ranks of one node alone."""
        return Fabric(self.per_node, 1, self.within, self.across)

    @property
    def one_rank_per_node(self) -> "Fabric":
        """One rank of each node, which talk across."""
        return Fabric(self.nodes, self.nodes, self.within, self.across)
