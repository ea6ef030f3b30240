"""The contract of a cost law: what a way of training together adds to a step."""

from dataclasses import dataclass

from advisor.planning.fabric import Fabric


@dataclass(frozen=True, kw_only=True)
class Work:
    """One step of one rank, as far as the laws need it. Sizes are bytes, times seconds."""

    gradient_bytes: float = 0.0  # what one rank has to share: S of the formulae
    compute_s: float = 0.0  # forward, backward and update, with nobody else
    micro_batches: int = 1
    chunks: int = 1  # model chunks a stage holds when stages are interleaved
    layers: int = 0
    activation_bytes: float = 0.0  # batch x sequence x hidden of one layer
    recomputes: bool = False
    servers: int = 1
    server_bytes_per_s: float = float("inf")  # of one parameter server
    local_steps: int = 1  # updates between two averagings


class Law:
    """Seconds that a step takes longer than computing alone, before any of it hides under computing.

    A law is one file of ``laws/``, named as the literature does; its docstring is its page.
    """

    formula: str  # in the words of the table: n ranks, R nodes, g a node, S bytes, a latency, B bytes/s
    source: str  # who published it

    def seconds(self, work: Work, fabric: Fabric) -> float:
        """The cost of one step in seconds.

        Args:
            work: What one rank has to do and to share.
            fabric: Who talks to whom; with one rank every law costs nothing.
        """
        raise NotImplementedError
