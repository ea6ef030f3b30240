"""Processes that prepare batches for one data loader."""

import math
from typing import Any

from advisor.profiles.derived.copies import against_workers
from advisor.profiles.derived.demand import cpu_use, feeding
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

WORKER_ONLY = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")
PER_CPU = 4
CROWDED = 0.85  # of its time that the rest takes without workers on its CPUs (0.68 to 0.88 were measured)
COMPUTES = 0.5  # share of an item's time that is CPU time, above which it computes more than it waits
KEEPS_UP = 0.9  # of the workers that do: fewer leave a tenth of the rest of the step and more as a wait
REPEATED = (
    "with more than one worker an iterable dataset gives every record once per worker, unless its __iter__ "
    "takes a share by torch.utils.data.get_worker_info(); where it does, set num_workers in the program: "
    "the rule duplicated_samples then tells whether records repeat"
)


class NumWorkers(Knob[int]):
    """Workers prepare batches while the device computes.

    They help most where items wait for storage: 1, 2 and 4 workers gave 1.2, 1.9 and 3.9 times on items
    with 3 ms of waiting, even on two cores. Workers that compute share the cores with the training:
    CPU-heavy items on a busy machine gave 0.79 to 0.88. Each worker costs memory and start-up time at
    every epoch (see `persistent_workers`).

    The numbers stay the same unless the dataset draws random numbers: those draws move into the workers.
    Where it draws from a generator of its own, of which all workers would get a copy, they are refused, and
    more than one where it holds an open file, archive or connection, whose position they would share.
    A dataset that holds tensors on a GPU cannot be read by forked workers, and an iterable dataset
    repeats its records in each worker, unless it shares them out itself, which nobody can see beforehand;
    both are refused. How many workers fit beside the threads of the training is decided for whole
    configurations.
    """

    semantics = Semantics.EXACT
    usual_gain = 0.7
    of_iterator = True
    loading = True
    acts_on = ("input_wait",)
    layer = -1  # the other loader knobs look at the number of workers

    def values(self) -> range:
        return range(0, 1025)

    def present(self, profile: Profile) -> int:
        return _loader(profile).num_workers

    def choices(self, profile: Profile) -> list[int]:
        present = self.present(profile)
        most = 1 if _loader(profile).iterable else PER_CPU * profile.machine.cpus_allowed
        powers = [2**n for n in range(most.bit_length()) if 2**n <= most]
        wanted = _wanted(profile)
        others = [n for n in (0, *powers) if n != present and against_workers(_loader(profile), n) is None]
        if not others:
            raise Refused(against_workers(_loader(profile), most) or "no other number of workers fits")
        fewest = 0 if _is_crowded(profile) else KEEPS_UP * wanted
        return [present, *sorted(others, key=lambda n: (n < fewest, abs(n - wanted)))]

    def left_out(self, profile: Profile) -> dict[int, str]:
        if profile.loader is None or (reason := against_workers(profile.loader, 2)) is None:
            return {}
        return {} if against_workers(profile.loader, 1) else {2: reason}

    def ceiling(self, profile: Profile) -> float | None:
        """More than the wait, where workers take CPUs from the rest of the step."""
        if profile.phases is None or not _is_crowded(profile):
            return None
        free = profile.replays.loader_free
        return max(
            1 - CROWDED * (1 - profile.phases.share("input_wait")), 0.0 if free is None else free.share
        )

    def expected(self, profile: Profile, value: int) -> float | None:
        """By the slowest of three: the rest of the step, making its batches, and the CPUs for both.

        Without workers nobody takes CPUs from the rest: it takes what it took with the loader left out, or
        ``CROWDED`` of its time where threads and workers asked for more CPUs than there are.
        """
        fed, phases = feeding(profile), profile.phases
        if fed is None or phases is None or _loader(profile).iterable:
            return None
        if value == 0:
            free = profile.replays.loader_free
            alone_ms = math.inf if free is None else (1 - free.share) * phases.step_ms
            rest_ms = fed.rest_ms * (CROWDED if _is_crowded(profile) else 1.0)
            return phases.step_ms / (min(rest_ms, alone_ms) + fed.making_ms)
        cpus = 1.0 if profile.host is None else profile.host.cpu_per_wall or 1.0
        share = 1.0 if fed.cpu_share is None else fed.cpu_share
        computing_ms = (fed.rest_ms * cpus + fed.making_ms * share) / profile.machine.cpus_allowed
        return phases.step_ms / max(fed.rest_ms, fed.making_ms / value, computing_ms, 1e-6)

    def check(self, value: int, profile: Profile) -> None:
        if _loader(profile).iterable and value > 1:
            raise Refused(REPEATED)
        reason = against_workers(_loader(profile), value)
        if reason is not None and value != self.present(profile):
            raise Refused(reason)

    def loader(self, arguments: dict[str, Any], value: int) -> None:
        """Set the number of workers of one loader, without options that torch rejects at zero.

        Raises:
            Refused: The dataset cannot be read from several processes.
        """
        if value > 0:
            _check_dataset(arguments.get("dataset"), value)
        arguments["num_workers"] = value
        if value == 0:
            for name in WORKER_ONLY:
                arguments.pop(name, None)

    def change(self, value: int) -> Change:
        return Change(f"DataLoader(..., num_workers={value})")


def _wanted(profile: Profile) -> float:
    """Workers that keep up with the rest of the step: item time of a batch over the step without its wait."""
    loader, phases = profile.loader, profile.phases
    if loader is None or phases is None or loader.item_ms is None or loader.batch_size is None:
        return 0
    rest_ms = max(phases.step_ms - phases.input_wait_ms, 0.01 * phases.step_ms)
    return loader.batch_size * loader.item_ms / rest_ms


def _is_crowded(profile: Profile) -> bool:
    """Whether threads and workers that compute ask for more CPUs than there are."""
    loader, used = profile.loader, cpu_use(profile)
    computes = loader is not None and loader.num_workers > 0 and (loader.cpu_share or 0.0) > COMPUTES
    return computes and used is not None and used > profile.machine.cpus_allowed


def _loader(profile: Profile) -> LoaderFacts:
    if profile.loader is None:
        raise Refused("the program uses no DataLoader")
    return profile.loader


def _check_dataset(dataset: object, value: int) -> None:
    import torch
    from torch.utils.data import IterableDataset

    if isinstance(dataset, IterableDataset) and value > 1:
        raise Refused(REPEATED)
    for held in vars(dataset).values() if hasattr(dataset, "__dict__") else ():
        for item in held if isinstance(held, list | tuple) else (held,):
            if isinstance(item, torch.Tensor) and item.is_cuda:
                raise Refused("the dataset holds tensors on the GPU, which worker processes cannot read")
