"""Parameters live on servers; workers push gradients to them and pull the new values."""

from collections.abc import Iterable
from pathlib import Path
from statistics import median
from threading import Event
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.mechanisms.data_parallel.divided_batch import refuse_undivided
from advisor.tuners.strategy import Build, Strategy

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

    from advisor.tuners.mechanisms.parameter_server.served_optimizer import ServedOptimizer
    from advisor.workloads.workload import Workload

SNIPPET = """\
from advisor.tuners.mechanisms.parameter_server.links import link_up
from advisor.tuners.mechanisms.parameter_server.key_value_server import KeyValueServer
from advisor.tuners.mechanisms.parameter_server.served_optimizer import ServedOptimizer

links = link_up(workers, servers)  # after init_process_group, in all processes; servers have the last ranks
if rank >= workers:
    KeyValueServer(rank - workers, links, make_optimizer, staleness=0).serve()
else:
    optimizer = ServedOptimizer(make_optimizer, model, list(links.values()))"""


class ParameterServer(Strategy):
    """Servers hold the parameters and apply the optimizer; workers compute gradients.

    Parameters are divided among the servers (knob `servers`), the largest first, so that bytes balance. A
    worker's step pushes its gradients and pulls the new values: per step it sends the bytes of all gradients
    and receives as many, whatever the number of workers; a server passes on the share of its keys once per
    worker. Small parameters travel together (knob `message_bytes`). A ring all-reduce, as `ddp` has it, sends
    2 (n-1)/n times the bytes of the gradients on each of n ranks, and overlaps them with backward, which this
    does not: with equal workers a parameter server is no faster. It pays where workers are not equally fast
    and need not wait for each other, and where updates take longer than their transport.

    Knob `staleness`: with 0 an update waits for the gradients of all workers and is made with their mean;
    losses and parameters are those of one process but for rounding. With `k` every gradient is an update of
    its own, at once, and a worker that is more than `k` steps ahead of the slowest waits for it; with
    `unbounded` nobody waits. These two learn something else than one process does, with more updates per
    sample at the same learning rate.

    Buffers, such as the means of batch norm, stay with each worker. The optimizer's state is on the servers
    only. The keys of a server that is lost go to the others: values from the workers, the optimizer's state
    from its last checkpoint, which it writes at most every 100 updates and in at most 2 % of its time. With
    one server the training ends with an error that names it. Servers come on top of the workers and share
    their cores. No figure of our own.
    """

    def __init__(self) -> None:
        self._optimizer: ServedOptimizer | None = None

    def meaning(self, config: Config) -> Semantics:
        return Semantics.ROUNDING if config.get("staleness", "0") == "0" else Semantics.TRAINING

    def check(self, profile: Profile, ranks: int) -> None:
        refuse_undivided(profile)
        for facts in profile.optimizers:
            if facts.closure:
                raise Refused(
                    f"{facts.name} computes gradients several times per update; workers push them once"
                )
            if facts.sparse_gradients:
                raise Refused(f"{facts.name} gets sparse gradients; servers take dense ones")
        if any(table.sparse for root in profile.roots for table in root.embeddings):
            raise Refused("an embedding table has sparse gradients; servers take dense ones")

    def servers(self, config: Config) -> int:
        return int(config.get("servers", 1))

    def change(self) -> Change:
        return Change(SNIPPET)

    def wrap(self, model: "Module") -> "Module":
        from torch import nn
        from torch.nn.parameter import is_lazy

        if any(isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.sparse for part in model.modules()):
            raise Refused("an embedding table has sparse gradients; servers take dense ones")
        if any(is_lazy(parameter) for parameter in model.parameters()):
            raise Refused("the model has parameters without a shape before its first forward")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise Refused("no parameter of the model is trained")
        return model

    def optimizer(self, build: Build, model: "Module") -> "Optimizer":
        from advisor.tuners.mechanisms.parameter_server.links import link_up
        from advisor.tuners.mechanisms.parameter_server.served_optimizer import ServedOptimizer

        links = link_up(self.place.workers, self.place.servers, self.place.timeout_s)
        self._optimizer = ServedOptimizer(
            build,
            model,
            list(links.values()),
            message_bytes=self._message_bytes,
            ping_s=self.place.timeout_s / 30,  # with ten pings a server is lost after a third of the time
        )
        return self._optimizer

    def clip(self, model: "Module", limit: float) -> None:
        """Servers clip the mean of all workers' gradients; without waiting for all, each worker its own."""
        if self._staleness == 0 and self._optimizer is not None:
            self._optimizer.clip_norm = limit
        else:
            super().clip(model, limit)

    def serve(self, workload: "Workload") -> None:
        from advisor.tuners.mechanisms.parameter_server.key_value_server import KeyValueServer
        from advisor.tuners.mechanisms.parameter_server.links import FOREVER, link_up

        assert workload.optimizer is not None  # every worker has refused what cannot be trained
        place = self.place
        # another server can take over only what it can read
        folder = Path(place.rendezvous).parent if place.servers > 1 else None
        KeyValueServer(
            place.rank - place.workers,
            link_up(place.workers, place.servers, FOREVER.total_seconds()),  # workers may load data first
            workload.optimizer,
            staleness=self._staleness,
            message_bytes=self._message_bytes,
            folder=folder,
        ).serve()
        Event().wait()  # all workers have ended; whoever started this process ends it

    def report(self) -> dict[str, Any]:
        """Bytes per step, what the servers were busy with, staleness, and servers that were lost.

        ``bytes_per_step`` is predicted: the bytes of all gradients, each rounded up to 16, and 1 KiB for each
        message and for the pull from each server.
        """
        if self._optimizer is None:
            return {}
        traffic = self._optimizer.traffic()
        reports = self._optimizer.store.report()
        staleness = _expanded(report["staleness"] for report in reports)
        ages = _expanded(report["ages"] for report in reports)
        return {
            **traffic,
            "server_busy_share": max((report["busy_share"] for report in reports), default=None),
            "server_cpu_s": sum(report["cpu_s"] for report in reports),
            "staleness_median": median(staleness) if staleness else None,
            "staleness_largest": max(staleness, default=None),
            "updates_missed_median": median(ages) if ages else None,
            "updates_missed_largest": max(ages, default=None),
            "servers_lost": {str(at): why for at, why in self._optimizer.store.servers.lost.items()},
            "restored": [each for report in reports for each in report["restored"]],
            "servers": reports,
        }

    @property
    def _staleness(self) -> int | None:
        value = self.setting("staleness", "0")
        return None if value == "unbounded" else int(value)

    @property
    def _message_bytes(self) -> int:
        return int(self.setting("message_bytes", 2**22))


def _expanded(counts: Iterable[dict[str, int]]) -> list[int]:
    return [int(value) for each in counts for value, times in each.items() for _ in range(times)]
