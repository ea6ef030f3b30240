"""A tuner's trials as the workers of its study see them: leased like theirs, so that none is done twice."""

from collections.abc import Callable, Mapping
from typing import Any, Self

from advisor.calls import Calls
from advisor.contract import Value, describe_machine
from advisor.lease_keeper import LeaseKeeper
from advisor.lease_times import LeaseTimes
from advisor.leases import Lease, TrialLeases
from advisor.profiles.machine import Machine
from advisor.proposing import refusal
from advisor.result import Trial
from advisor.storage_url import StorageUrl
from advisor.tuners.space import Space
from advisor.worker_link import WorkerLink


class TunerLeases:
    """The group of the tuner's machine. What the tuner itself keeps of a trial stays as it is.

    Args:
        url: Where the study is.
        study: Its name.
        machine: The tuner's.
        space: That of the study's contract, which is the workers' too.
        waiting: Called while waiting for the database; may raise.
        warn: Is told when the database goes away, and when a trial was lost.
    """

    def __init__(
        self,
        url: StorageUrl,
        study: str,
        machine: Machine,
        space: Space,
        waiting: Callable[[str, float], None],
        warn: Callable[[str], None],
    ) -> None:
        times = LeaseTimes.from_environment()
        self._study, self._machine, self._space, self._warn = study, machine, space, warn
        self._lease: Lease | None = None

        def connect() -> WorkerLink:
            return WorkerLink.open(url, times, warn)

        self._calls: Calls[WorkerLink] = Calls(connect, times, waiting=waiting, warn=warn)
        self._keeper = LeaseKeeper(connect, self._group, times)

    def __enter__(self) -> Self:
        self._keeper.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._keeper.__exit__(*exception)
        self._calls.close()

    def join(self, baseline: Mapping[str, Any]) -> None:
        """Make the group, when this is its first member; ``baseline`` as JSON values."""
        words = describe_machine(self._machine)
        self._calls(lambda link: self._group(link).register(words, baseline))

    def begin(self, config: Mapping[str, Value]) -> None:
        """Take the trial, unless a worker has it or it is none of the study's space."""
        known = {name: value for name, value in config.items() if name in self._space.present}
        whole = self._space.complete(known)
        self._lease = None
        if refusal(self._space, whole) is not None or any(whole[name] != known[name] for name in known):
            return
        key = self._space.key(whole)
        self._lease = self._calls(lambda link: self._group(link).begin(f"tuner of {self._study}", whole, key))
        self._keeper.hold(self._lease)

    def record(self, trial: Trial) -> None:
        """Keep the trial for the workers, when it was taken for them."""
        lease, self._lease = self._lease, None
        self._keeper.hold(None)
        if lease is None:
            return
        ratio = trial.against_baseline
        value = ratio.estimate if ratio is not None and trial.state == "complete" else None
        data = trial.model_dump(mode="json", by_alias=True) | {"number": lease.number, "config": lease.config}
        delivery = self._calls(
            lambda link: self._group(link).record(lease.number, lease.fence, data, trial.state, value)
        )
        if delivery == "lost":
            self._warn(f"trial {trial.number} took longer than its lease: a worker measures it too")

    def _group(self, link: WorkerLink) -> TrialLeases:
        return link.leases(self._study, self._machine.fingerprint)
