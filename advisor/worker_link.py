"""A worker's connection to a study: our tables, and Optuna's study of its group."""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from advisor.announcing import announce, optuna_name, settle
from advisor.contract import Value
from advisor.lease_times import LeaseTimes
from advisor.leases import Lease, TrialLeases
from advisor.storage_url import StorageUrl
from advisor.store import Store

if TYPE_CHECKING:
    import optuna
    from sqlalchemy import Engine


class WorkerLink:
    """The database as one thread uses it. ``cut`` may be called by another."""

    def __init__(self, store: Store, times: LeaseTimes) -> None:
        self.store = store
        self._times = times
        self._sockets: list[Any] = []
        self._optuna: dict[str, optuna.Study] = {}
        self._remember(store.database.engine)

    @classmethod
    def open(
        cls, url: StorageUrl, times: LeaseTimes, warn: Callable[[str], None], *, create: bool = False
    ) -> "WorkerLink":
        """Connect, and make the tables where they are missing and ``create`` says so."""
        return cls(Store.open(url, create=create, warn=warn), times)

    def leases(self, study: str, fingerprint: str) -> TrialLeases:
        """The leases of a group."""
        return TrialLeases(self.store.database, study, fingerprint, self._times)

    def optuna(self, study: str, fingerprint: str) -> "optuna.Study":
        """Optuna's study of a group, made when there is none."""
        name = optuna_name(study, fingerprint)
        if name not in self._optuna:
            found = self.store.optuna_study(name, None)
            self._remember(_engine_of(found))
            self._optuna[name] = found
        return self._optuna[name]

    def announce(self, group: TrialLeases, lease: Lease, choices: Mapping[str, Sequence[Value]]) -> int:
        """Tell Optuna that a trial runs; its number there."""
        with self.store.guarded():
            return announce(self.optuna(group.study, group.fingerprint), lease, lease.config, choices)

    def settle(self, group: TrialLeases) -> int:
        """Tell Optuna how trials ended; of how many it was told."""
        with self.store.guarded():
            return settle(self.optuna(group.study, group.fingerprint), group)

    def cut(self) -> None:
        """End all connections at once; a thread that waits on one gets an error."""
        if self._sockets:
            import psycopg

            for connection in self._sockets:
                with suppress(OSError, psycopg.Error):  # one that is closed has no number any more
                    self._shut(connection)

    def close(self) -> None:
        """Give the connections back."""
        self.store.close()
        for study in self._optuna.values():
            _engine_of(study).dispose()

    def _remember(self, engine: "Engine") -> None:
        """Note the connections of an engine, those that it has and those that it will make."""
        if engine.dialect.name != "postgresql":
            return
        from sqlalchemy import event

        event.listen(engine, "connect", lambda connection, record: self._sockets.append(connection))
        event.listen(engine, "checkout", lambda connection, record, proxy: self._note(connection))

    def _note(self, connection: Any) -> None:
        if connection not in self._sockets:
            self._sockets.append(connection)

    @staticmethod
    def _shut(connection: Any) -> None:
        with socket.socket(fileno=os.dup(connection.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)


def _engine_of(study: "optuna.Study") -> "Engine":
    """The engine of Optuna's storage, which Optuna wraps in a cache."""
    storage: Any = study._storage
    engine: Engine = getattr(storage, "_backend", storage).engine
    return engine
