"""Keeps a worker's lease while it measures, and ends those of workers that are gone."""

import threading
from collections.abc import Callable
from typing import Self

from advisor.calls import Calls
from advisor.errors import EnvironmentProblem
from advisor.lease_times import LeaseTimes
from advisor.leases import Lease, TrialLeases
from advisor.tuners.session import Interrupted
from advisor.worker_link import WorkerLink


class LeaseLost(Interrupted):
    """The trial that is measured is another worker's now; nobody waits for its result."""


class LeaseKeeper:
    """A thread with a connection of its own: a measurement must not make a renewal late.

    Args:
        connect: Makes that connection.
        group: The leases of the worker's group.
        times: Period, expiry and deadline.
    """

    def __init__(
        self,
        connect: Callable[[], WorkerLink],
        group: Callable[[WorkerLink], TrialLeases],
        times: LeaseTimes,
    ) -> None:
        self._calls = Calls(connect, times, waiting=self._unless_stopped)
        self._group = group
        self._times = times
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="lease keeper")
        self.lease: Lease | None = None
        self.lost = False
        self.problem: EnvironmentProblem | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join(timeout=self._times.deadline_s)

    def hold(self, lease: Lease | None) -> None:
        """Renew this lease from now on; ``None`` renews none."""
        self.lost = False
        self.lease = lease

    def look(self) -> None:
        """Renew once, and end what expired."""
        lease = self.lease
        if lease is not None and not self._calls(lambda link: self._group(link).renew(lease)):
            self.lost = self.lease == lease
        self._calls(lambda link: self._group(link).reap())

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._times.period_s):
                try:
                    self.look()
                    self.problem = None
                except EnvironmentProblem as problem:  # the worker itself meets it too, and tells it
                    self.problem = problem
        except Interrupted:
            self.lease = None
        finally:
            self._calls.close()

    def _unless_stopped(self, what: str, seconds: float) -> None:
        if self._stop.is_set():
            raise Interrupted
