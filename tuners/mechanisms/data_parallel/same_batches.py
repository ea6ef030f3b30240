"""Workers that each load all batches: that these are the same, and stay so."""

from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

from advisor.tuners.knob import Refused
from advisor.tuners.place import HERE

DIFFERENT = (
    "the ranks loaded different batches, where all need the same: "
    "the dataset draws random numbers that do not follow torch's seed"
)


def share_random_state() -> None:
    """Give every worker the first one's random state, from which batches are shuffled."""
    device = torch.device(HERE.place.device)
    torch.set_rng_state(_from_first(torch.get_rng_state(), device))
    if device.type == "cuda":
        torch.cuda.set_rng_state(_from_first(torch.cuda.get_rng_state(device), device), device)


class SameBatches:
    """Compares a digest of the batches of all workers, of the first ones and then ever more rarely."""

    def __init__(self) -> None:
        self._seen = 0

    def check(self, batch: Any) -> None:
        """To be called by every worker with each batch.

        Raises:
            Refused: They differ; every worker comes to the same.
        """
        self._seen += 1
        if self._seen & (self._seen - 1):  # looked at are numbers 1, 2, 4, 8, ...
            return
        mine = digest(batch).to(HERE.place.device)
        all_of_them = [torch.empty_like(mine) for _ in range(HERE.place.workers)]
        dist.all_gather(all_of_them, mine, group=HERE.among_workers)
        if any(not torch.equal(other, all_of_them[0]) for other in all_of_them):
            raise Refused(DIFFERENT)


class OwnRandomNumbers:
    """While entered, random numbers on the CPU are this worker's own.

    Outside they stay in step with those of the other workers, however many each of them draws inside.
    """

    def __init__(self) -> None:
        seed = (torch.initial_seed() + 1 + HERE.place.rank) % 2**63
        self._own = torch.Generator().manual_seed(seed).get_state()
        self._common = self._own

    def __enter__(self) -> None:
        self._common = torch.get_rng_state()
        torch.set_rng_state(self._own)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._own = torch.get_rng_state()
        torch.set_rng_state(self._common)


def digest(batch: Any) -> torch.Tensor:
    """One number for all tensors of a batch, which depends on the place of each value."""
    total = torch.zeros(1, dtype=torch.float64)
    for number, leaf in enumerate(tree_leaves(batch), start=1):
        if not isinstance(leaf, torch.Tensor) or leaf.is_complex() or not leaf.numel():
            continue
        values = leaf.detach().reshape(-1).to(torch.float64).nan_to_num()
        places = torch.linspace(1, 2, len(values), dtype=torch.float64, device=leaf.device)
        total += number * (values @ places).cpu()
    return total


def _from_first(state: torch.Tensor, device: torch.device) -> torch.Tensor:
    sent = state.to(device)
    dist.broadcast(sent, 0, group=HERE.among_workers)
    return sent.cpu()
