"""How strategies divide the memory of one process among ranks, by its measured categories."""

from dataclasses import dataclass
from typing import Literal, Protocol

from advisor.planning.places import Place


@dataclass(frozen=True)
class Categories:
    """Bytes at the peak of a step of one process, and how much of it the allocator had reserved.

    Activations are what the peak has beside parameters, gradients and state (devices), or ``saved`` ones that
    were counted by themselves (hosts). Those shrink while gradients grow: a step has its peak at the end of
    forward or at the end of backward.
    """

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    peak: float
    local_batch: float
    reserved: float | None = None
    saved: bool = False

    @property
    def rest(self) -> float:
        """What no category explains: contexts, workspaces, the interpreter. It stays as it is."""
        passing = self.gradients + self.activations
        if self.saved:
            passing = max(self.gradients, self.activations)
        return max(0.0, self.peak - self.parameters - self.optimizer - passing)


@dataclass(frozen=True)
class Share:
    """Of how many ranks one holds a part: of parameters, gradients and optimizer state.

    ``all`` divides over every rank, ``node`` over those of a node, ``none`` keeps it whole. ``copies`` of the
    gradients are kept besides, ``gathered`` of the parameters are whole when backward begins, beside all
    activations (the buffer that is gathered, and the parameters copied from it): a whole model as one unit,
    which is the most that sharding needs. When backward ends ``reduced`` of the gradients are whole
    (themselves, and the buffer from which they are sent), with parameters and activations gone.
    """

    parameters: Literal["none", "node", "all"] = "none"
    gradients: Literal["none", "node", "all"] = "none"
    optimizer: Literal["none", "node", "all"] = "none"
    copies: float = 0.0
    gathered: float = 0.0
    reduced: float = 0.0
    packed: float = 0.0  # copies of the gradients once backward has ended, in messages
    elsewhere: bool = False  # servers keep the optimizer's state

    @property
    def assumed(self) -> str:
        """Nothing."""
        return ""

    def held(self, of: Categories, place: Place) -> tuple[float, float]:
        """Bytes at the peak; and the most, if it comes before any gradient is there."""
        over = {"none": 1, "node": place.per_node, "all": place.ranks}
        parameters = of.parameters / over[self.parameters]
        activations, whole = of.activations * place.local_batch / of.local_batch, 0.0
        if over[self.parameters] > 1:
            activations += self.gathered * of.parameters
            whole = self.reduced * of.gradients
        if place.ranks > 1:
            whole += self.packed * of.gradients
        copies = self.copies * of.gradients if place.ranks > 1 else 0.0
        stays = parameters + copies + of.rest
        if not self.elsewhere or place.ranks == 1:
            stays += of.optimizer / over[self.optimizer]
        gradients = of.gradients / over[self.gradients]
        if of.saved:
            stays += max(activations, whole + gradients)
            return stays, stays
        stays += max(activations, whole)
        return stays + gradients, stays + of.gradients


@dataclass(frozen=True)
class Stages:
    """A pipeline of as many equal stages as ranks, at its first stage, which holds most activations.

    All ranks train the same batch, of their local batches together. GPipe keeps the activations of all
    micro-batches until the first backward; 1F1B those of as many as there are stages (Narayanan and others,
    2021, section 2.2). While gradients are there, those of one micro-batch are gone, and one parameter's
    gradient is there twice: as it comes, and as those of earlier micro-batches to which it is added.

    Attributes:
        schedule: ``gpipe`` or ``1f1b``.
        micro_batches: Of a batch.
        largest: Bytes of the largest parameter of a stage, where a trial told them.
    """

    schedule: str = "gpipe"
    micro_batches: int = 4
    largest: float = 0.0

    @property
    def assumed(self) -> str:
        """What the figures rest on."""
        return f"{self.schedule}, {self.micro_batches} micro-batches, equal stages"

    def held(self, of: Categories, place: Place) -> tuple[float, float]:
        """Bytes at the peak; and the most, if the peak of one process had no gradients beside activations."""
        stages, parts = place.ranks, self.micro_batches
        if stages == 1:
            return Share().held(of, place)
        flying = min(stages, parts) if self.schedule == "1f1b" else parts
        left = flying if flying < parts else flying - 1  # while a backward adds gradients
        gradients = of.gradients / stages
        stays = (of.parameters + of.optimizer) / stages + of.rest
        twice = self.largest if parts > 1 else 0.0

        def most(activations: float) -> float:
            own = activations * place.local_batch / of.local_batch / parts  # of one micro-batch in one stage
            return stays + max(flying * own, gradients + twice + left * own)

        low = most(of.activations)
        return low, low if of.saved else most(of.activations + of.gradients)


@dataclass(frozen=True)
class Layers:
    """Layers divided over all ranks, which train the same batch, of their local batches together.

    Activations count whole, which is the most: what stands between the layers of a pair, and heads of
    attention, are divided too (Korthikanti and others, 2022, section 4: 10 of the 34 bytes that a transformer
    layer keeps of each number stay whole).

    Attributes:
        whole: Share of the parameters that no rank divides (embeddings, norms).
    """

    whole: float | None = None

    @property
    def assumed(self) -> str:
        """What the figures rest on."""
        return "all layers divided" if self.whole is None else f"{1 - self.whole:.0%} of parameters divided"

    def held(self, of: Categories, place: Place) -> tuple[float, float]:
        """Bytes at the peak; and the most, if it comes before any gradient is there."""
        whole = self.whole or 0.0
        share = whole + (1 - whole) / place.ranks
        activations = of.activations * place.ranks * place.local_batch / of.local_batch
        stays = share * (of.parameters + of.optimizer) + of.rest
        if of.saved:
            stays += max(activations, share * of.gradients)
            return stays, stays
        return stays + activations + share * of.gradients, stays + activations + of.gradients


@dataclass(frozen=True)
class Server:
    """One of the parameter servers, which hold parameters and state in equal parts, and take gradients.

    ``gathered`` copies of its gradients are there beside those of each worker: their mean, and what is sent.
    """

    servers: int = 1
    gathered: float = 1.0

    @property
    def assumed(self) -> str:
        """What the figures rest on."""
        return f"of parameters, one of {self.servers}" if self.servers > 1 else "of parameters, the only one"

    def held(self, of: Categories, place: Place) -> tuple[float, float]:
        """Bytes at the peak, while the gradients of all workers have come."""
        kept = of.parameters + of.optimizer + (place.ranks + self.gathered) * of.gradients
        size = kept / self.servers + of.rest
        return size, size


def whole_share(held: float, ranks: int) -> float:
    """The share of parameters that no rank divides, from the share that one of ``ranks`` holds."""
    return min(1.0, max(0.0, (held * ranks - 1) / (ranks - 1)))


class Division(Protocol):
    """How a strategy divides the memory of one process."""

    @property
    def assumed(self) -> str:
        """What the figures rest on beside the categories; empty if nothing."""
        ...

    def held(self, of: Categories, place: Place) -> tuple[float, float]:
        """Bytes of one rank at its peak, and the most that they can be."""
        ...


SHARES: dict[str, Division] = {
    "single": Share(),
    "local_sgd": Share(),
    "ddp": Share(copies=1),  # buckets, a second copy unless `gradient_as_bucket_view`
    "zero": Share(optimizer="all", copies=1),  # ZeroRedundancyOptimizer beside DistributedDataParallel
    "zero2": Share(gradients="all", optimizer="all"),
    "fsdp": Share("all", "all", "all", gathered=2, reduced=2),
    "hybrid": Share("node", "node", "node", gathered=2, reduced=2),
    "parameter_server": Share(packed=1, elsewhere=True),  # gradients packed for messages
    "server": Server(),
    "pipeline": Stages(),
    "tensor_parallel": Layers(),
}
"""Rajbhandari and others, 2020, section 5, with what torch adds; the rest as said there."""
