"""Where this process stands among those that train one model together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist


@dataclass(frozen=True)
class Place:
    """One process of a trial.

    Processes are numbered workers first, then servers. A process that trains alone is the only worker.

    Attributes:
        rank: Its number, 0 to ``processes - 1``.
        workers: Processes that each run the training loop.
        servers: Processes that serve them and train nothing (parameter server).
        rendezvous: File over which the processes find each other; empty for a process alone.
        device: ``cpu`` or ``cuda:N``, as torch spells it.
        cpus: Cores that this process is bound to; empty where it is not bound.
        timeout_s: Longest that a collective may take.
        on_devices: Workers train on GPUs.
        learning: Every worker is handed whole batches, and takes its share of each: for comparing numbers.
    """

    rank: int = 0
    workers: int = 1
    servers: int = 0
    rendezvous: str = ""
    device: str = "cpu"
    cpus: tuple[int, ...] = ()
    timeout_s: float = 60.0
    learning: bool = False
    on_devices: bool = False

    @property
    def processes(self) -> int:
        """Workers and servers."""
        return self.workers + self.servers

    @property
    def serves(self) -> bool:
        """Whether it is a server."""
        return self.rank >= self.workers


def _backend(place: Place) -> str:
    """Servers live on CPUs, so workers on GPUs meet them over gloo."""
    if place.servers and place.on_devices:
        return "cpu:gloo,cuda:nccl"
    return "nccl" if place.device.startswith("cuda") else "gloo"


@dataclass
class Standing:
    """The place of this process, and its groups once it has joined the others."""

    place: Place = field(default_factory=Place)
    config: Mapping[str, int | str] = field(default_factory=dict)
    among_workers: "dist.ProcessGroup | None" = None

    def join(self) -> None:
        """Meet the other processes; returns when all are there. Does nothing for a process alone.

        Raises:
            RuntimeError: They did not come in time.
        """
        place = self.place
        if place.processes == 1:
            return
        from datetime import timedelta

        import torch.distributed as dist

        if dist.is_initialized():
            return
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group(
            _backend(place),
            init_method=f"file://{place.rendezvous}",
            rank=place.rank,
            world_size=place.processes,
            timeout=timedelta(seconds=place.timeout_s),
        )
        workers = list(range(place.workers))
        self.among_workers = dist.group.WORLD if not place.servers else dist.new_group(workers)

    def share_weights(self, model: "torch.nn.Module") -> None:
        """Give every worker the weights and buffers of the first one."""
        if self.place.workers == 1:
            return
        import torch.distributed as dist

        for tensor in [*model.parameters(), *model.buffers()]:
            dist.broadcast(tensor.detach(), 0, group=self.among_workers)

    def share(self, batch: Any) -> Any:
        """This worker's part of a whole batch: every n-th sample, as a DistributedSampler deals them out.

        Raises:
            ValueError: The batch cannot be divided evenly.
        """
        if self.place.workers == 1:
            return batch
        import torch
        from torch.utils._pytree import tree_map_only

        def part(tensor: "torch.Tensor") -> "torch.Tensor":
            if tensor.dim() == 0 or tensor.size(0) % self.place.workers:
                raise ValueError(
                    f"a batch of shape {list(tensor.shape)} cannot be divided among "
                    f"{self.place.workers} ranks"
                )
            return tensor[self.place.rank :: self.place.workers]

        return tree_map_only(torch.Tensor, part, batch)


HERE = Standing()
"""Of this process."""
