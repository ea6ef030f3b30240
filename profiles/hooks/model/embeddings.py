"""How much of each embedding table one step reads, counted over a few steps while somebody inspects."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import EmbeddingFacts
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.tensors import each_tensor

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.utils.hooks import RemovableHandle


class Touched:
    """Counts distinct rows per step by forward pre-hooks; reads the device."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._handles: list[RemovableHandle] = []
        self._rows: dict[int, dict[int, list[Tensor]]] = {}
        self._shares: dict[int, list[float]] = {}

    def start(self, modules: Iterable["Module"]) -> None:
        """Watch these tables from now on."""
        for module in modules:
            hook = module.register_forward_pre_hook(self._read, with_kwargs=True)
            self._handles.append(hook)

    def stop(self) -> None:
        """Watch no longer, and count what was read."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for key, steps in self._rows.items():
            self._shares.setdefault(key, []).extend(_distinct(read) for read in steps.values())
        self._rows.clear()

    def rows(self, module: "Module") -> float | None:
        """Mean number of distinct rows per step; ``None`` for a table that was not read."""
        counts = self._shares.get(id(module))
        return sum(counts) / len(counts) if counts else None

    def _read(self, module: "Module", args: Any, kwargs: Any) -> None:
        indices = next((each for each in each_tensor((args, kwargs)) if not each.is_floating_point()), None)
        if indices is not None and module.training:
            steps = self._rows.setdefault(id(module), {})
            steps.setdefault(self._clock.steps, []).append(indices.detach().unique())


def is_table(module: "Module") -> bool:
    """Whether a module is an embedding table of torch's."""
    from torch import nn

    return isinstance(module, (nn.Embedding, nn.EmbeddingBag))


def table_facts(name: str, table: Any, tied: bool) -> EmbeddingFacts:
    """An embedding table as constructed; ``tied`` if another module uses its weight."""
    return EmbeddingFacts(
        name=name,
        rows=table.num_embeddings,
        columns=table.embedding_dim,
        sparse=table.sparse,
        parameter_bytes=table.weight.numel() * table.weight.element_size(),
        tied=tied,
    )


def _distinct(read: "list[Tensor]") -> float:
    import torch

    return float(torch.cat(read).unique().numel())
