"""What feeding the training asks of the machine: time to make the batches of a step, and CPUs."""

from dataclasses import dataclass

from advisor.profiles.facts.profile import LoaderFacts, Profile

FILE_BYTES = 512  # read per item, from which it is data and no file looked at by the way: a disk's sector
WAITS = 0.5  # of the time that is no computing (SageMaker Debugger, IOBottleneck)


@dataclass(frozen=True)
class Feeding:
    """Making the batches of one step in one process, beside what the step waits. Times in milliseconds.

    ``items_ms`` is fetching all its items, ``collate_ms`` joining them. ``cpu_share`` is the share (0 to 1)
    of both that is CPU time, and ``reads_files`` whether items read files; ``None`` where not known.
    ``network`` is whether those lie on a network file system.
    """

    workers: int
    batches: float
    items: float
    items_ms: float
    collate_ms: float
    wait_ms: float
    rest_ms: float
    cpu_share: float | None = None
    reads_files: bool | None = None
    network: bool = False

    @property
    def making_ms(self) -> float:
        """Fetching and joining together."""
        return self.items_ms + self.collate_ms

    @property
    def per_process_ms(self) -> float:
        """What one step costs each process that makes batches: they share the work."""
        return self.making_ms / max(1, self.workers)

    @property
    def explains_wait(self) -> bool:
        """Whether making batches takes long enough for the wait; else that comes from elsewhere."""
        return self.per_process_ms >= self.wait_ms / 2

    @property
    def waiting(self) -> float | None:
        """Share (0 to 1) of making a batch that is no computing."""
        return None if self.cpu_share is None else 1 - self.cpu_share

    @property
    def share_of_storage(self) -> float:
        """Share (0 to 1) of the input wait that storage accounts for; 0 where something else does.

        Files must be read, and most of the time be no computing. On a network file system, which may have
        been faster when items were timed, it is also what computing leaves unexplained of the wait.
        """
        if not self.reads_files:
            return 0.0
        if self.waiting is None:
            return 1.0 if self.network else 0.0
        if self.waiting > WAITS:
            return self.waiting
        if self.network and self.wait_ms > 0:
            unexplained = 1 - self.per_process_ms * (1 - self.waiting) / self.wait_ms
            return unexplained if unexplained > WAITS else 0.0
        return 0.0


def feeding(profile: Profile) -> Feeding | None:
    """What the training loader's batches cost per step; ``None`` where items were not timed."""
    loader, phases = profile.loader, profile.phases
    if loader is None or phases is None or loader.item_ms is None or phases.step_ms <= 0:
        return None
    counted = _per_step(profile, loader)
    if counted is None:
        return None
    items, batches = counted
    return Feeding(
        workers=loader.num_workers,
        batches=batches,
        items=items,
        items_ms=items * loader.item_ms,
        collate_ms=batches * (loader.collate_ms or 0.0),
        wait_ms=phases.input_wait_ms,
        rest_ms=max(0.0, phases.step_ms - phases.input_wait_ms),
        cpu_share=loader.cpu_share,
        reads_files=_reads_files(loader),
        network=loader.network_filesystem is not None,
    )


def is_piped(loader: LoaderFacts) -> bool:
    """Whether items come through a connection to another process."""
    return loader.item_told_bytes >= FILE_BYTES


def cpu_demand(profile: Profile) -> float | None:
    """CPUs asked for: ranks x (threads + workers x CPU share of an item's time).

    On a GPU the host drives with one thread, whatever torch's number of threads is. ``None`` where
    threads or that share are not known.
    """
    workers = 0 if profile.loader is None else profile.loader.num_workers
    return _demand(profile, workers)


def cpu_use(profile: Profile) -> float | None:
    """The same demand, with workers that pause while their queue is full.

    They are busy no longer than making the batches of each step takes; all the time where that is not
    known.
    """
    fed = feeding(profile)
    if fed is None or profile.phases is None:
        return cpu_demand(profile)
    return _demand(profile, min(fed.workers, fed.making_ms / profile.phases.step_ms))


def computing_threads(profile: Profile) -> int | None:
    """Threads of all ranks that compute, or drive a GPU."""
    if profile.run is None:
        return None
    return rank_count(profile) * (1 if profile.device.startswith("cuda") else profile.run.num_threads)


def rank_count(profile: Profile) -> int:
    """Processes that train together."""
    return len(profile.ranks) if profile.ranks else 1


def _demand(profile: Profile, busy_workers: float) -> float | None:
    threads = computing_threads(profile)
    if threads is None:
        return None
    if profile.loader is None or profile.loader.num_workers == 0:
        return float(threads)
    share = profile.loader.cpu_share
    return None if share is None else threads + rank_count(profile) * busy_workers * share


def _per_step(profile: Profile, loader: LoaderFacts) -> tuple[float, float] | None:
    """Items and batches that one step uses."""
    samples = profile.run.samples_per_step if profile.run is not None else None
    if loader.own_batch_sampler:
        return None if samples is None else (samples, 1.0)
    if loader.batch_size is None:  # no batching: each item is a whole batch
        return 1.0, 1.0
    if samples is None:
        return float(loader.batch_size), 1.0
    return samples, max(1.0, samples / loader.batch_size)


def _reads_files(loader: LoaderFacts) -> bool | None:
    if loader.network_filesystem is not None:
        return True
    return None if loader.item_read_bytes is None else loader.item_read_bytes >= FILE_BYTES
