"""Workers as processes of their own, and what the database says of their trials."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from advisor.lease_tables import leases
from advisor.storage_url import parse_storage
from advisor.store import Store

SCRIPT = Path(__file__).with_name("scripted_worker.py")
DEADLINE_S = 400.0


def opened(url: str) -> Store:
    return Store.open(parse_storage(url), create=False, warn=lambda text: None)


def started(url: str, target: Path, *more: str, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(SCRIPT), "--url", url, "--study", "train", "--target", str(target), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def states(url: str) -> list[str]:
    """States of Optuna's trials in all groups."""
    import optuna

    with opened(url) as store:
        names = [f"train@{row.fingerprint[:12]}" for row in groups_of(store)]
        found: list[optuna.trial.FrozenTrial] = []
        for each in names:
            found += store.optuna_study(each, None).trials
    return sorted(trial.state.name for trial in found)


def groups_of(store: Store) -> list[Any]:
    from advisor.groups import read_groups

    return list(read_groups(store.database, "train"))


def rows_in(store: Store) -> list[Any]:
    with store.database.reading() as connection:
        return list(connection.execute(leases.select().order_by(leases.c.number)).all())


def recorded(url: str) -> int:
    with opened(url) as store:
        return sum(row.state == "complete" for row in rows_in(store))


def recorded_if_there(url: str) -> int:
    with suppress(Exception):  # the server is being mistreated
        return recorded(url)
    return 0


def is_measuring(url: str) -> bool:
    """Whether a trial was told to Optuna, the last thing before it is measured."""
    with suppress(Exception), opened(url) as store:  # the study may not be there yet
        return any(row.state == "running" and row.asked is not None for row in rows_in(store))
    return False


def rows_of(url: str, state: str) -> int:
    with suppress(Exception), opened(url) as store:  # the study may not be there yet
        return sum(row.state == state for row in rows_in(store))
    return 0
