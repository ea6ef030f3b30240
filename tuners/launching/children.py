"""A program whose steps are all taken by processes that it started itself: said at once, in one sentence."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from advisor.profiles.hooks.surroundings.children import FILE
from advisor.tuners.supervision.failures import IN_CHILDREN, Failure, TrialFailed

SETTLED_S = 4.0  # in which children train, before it is said: others begin later, and some soon end
WAITED_S = 2.0  # in which it waits for children that will train, before they have imported torch


class ChildrenLook:
    """Looks whether children train while the program itself takes no step.

    Args:
        folder: Of the trial, in which its processes tell of themselves.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._since: dict[str, float] = {}  # what holds, and since when

    def look(self, now_s: float) -> None:
        """Look once more; ``now_s`` is any steady clock's.

        Raises:
            TrialFailed: They do, and no step was taken before: the message says who.
        """
        told = _told(self._file)
        training = {each["pid"]: each["threads"] for each in told if "threads" in each and _runs(each["pid"])}
        awaited = {pid for each in told for pid in each.get("waits", ())}
        will = [each for each in told if each.get("trains") and _runs(each["pid"])]
        waits = bool(will) and any(_runs(pid) for pid in awaited)
        if self._for(now_s, "train", bool(training)) >= SETTLED_S or (
            not training and self._for(now_s, "wait", waits) >= WAITED_S
        ):
            started = [each for each in told if "name" in each]
            unsure = not training and any(each["chooses"] for each in will)
            training = training or {each["pid"]: each["opens"] for each in will}
            where = next((each["at"] for each in started if each["pid"] in training), None)
            raise TrialFailed(Failure("user_error", _sentence(started, training, unsure), where=where))

    def _for(self, now_s: float, what: str, holds: bool) -> float:
        """Seconds for which something has held."""
        if not holds:
            self._since.pop(what, None)
            return 0.0
        return now_s - self._since.setdefault(what, now_s)


def started_in(folder: Path) -> str:
    """The processes that a trial started by multiprocessing, in words; empty where there were none."""
    names = Counter(each["name"] for each in _told(folder / FILE) if "name" in each)
    return ", ".join(f"{count} of {name}()" for name, count in names.items())


def _told(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def _runs(pid: int) -> bool:
    """Whether it is there and has not ended; one that has stays until its parent asks for its end."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state != b"Z"


def _sentence(started: list[dict[str, Any]], training: dict[int, int], unsure: bool) -> str:
    names = Counter(each["name"] for each in started if each["pid"] in training)
    who = ", ".join(f"{name}()" for name in names) or "another program"
    threads, cpus = max(training.values()), len(os.sched_getaffinity(0))
    own = " unless it sets fewer itself" * (unsure and threads > 1)
    said = (
        f"{IN_CHILDREN}: it started {len(started)} process{'es' * (len(started) != 1)} by multiprocessing, "
        f"of which {len(training)} train in {who}, "
        f"each with {threads} thread{'s' * (threads != 1)}{own} on {cpus} CPUs"
    )
    if threads > 1 and threads * len(training) > cpus:
        fit = max(1, cpus // len(training))
        said += f"; these take turns: call torch.set_num_threads({fit}) first in {who}"
    return said
