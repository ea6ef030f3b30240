"""Orphans of trials whose supervisor was killed: adopted by the tuner, and ended by it.

A supervisor ends its trial itself; only without it processes of the trial are left over. Linux hands these
to the nearest subreaper above, which the tuner is while it starts trials.
"""

import contextlib
import os
import time
import uuid
from collections.abc import Collection
from pathlib import Path

from advisor.tuners.supervision.process_tree import (
    KILL_WAIT_S,
    become_subreaper,
    children,
    descendants,
    is_exiting,
    is_subreaper,
    kill_tree,
    living_since,
    session_of,
)  # fmt: skip

MARK = "ADVISOR_TRIALS"
GRACE_S = 0.5  # the trial they belonged to is dead: nothing they could save is of use
TURN_S = 0.01  # between two looks at who is left


class Adoption:
    """While open, this process is a subreaper and can tell orphans of its trials from all else.

    In a notebook this is undone at the end. Until then orphans of *other* programs that this process
    started come to it as well: they are never signalled, and those that end meanwhile stay zombies until
    this process ends.

    Attributes:
        environment: To be set for every process of every trial; it marks them.
        sessions: Session ids of trials; their processes are known by it even when they hide their
            environment, or are zombies.
    """

    def __init__(self) -> None:
        self.environment = {MARK: uuid.uuid4().hex}
        self.sessions: set[int] = set()
        self._was_subreaper = False

    def open(self) -> None:
        """Begin to adopt."""
        self._was_subreaper = is_subreaper()
        become_subreaper()

    def close(self) -> None:
        """End every orphan that is left, and adopt no more."""
        self.end_orphans()
        become_subreaper(self._was_subreaper)

    def end_orphans(self, spare: Collection[int] = ()) -> int:
        """End what this process adopted from trials, with all below it; returns how many would not end.

        Args:
            spare: Children that this process started itself: supervisors that are at work.
        """
        while True:
            orphans = [pid for pid in children(os.getpid()) if pid not in spare and self._is_ours(pid)]
            left = kill_tree(*orphans, grace_s=GRACE_S) if orphans else 0
            for pid in orphans:
                with contextlib.suppress(ChildProcessError):  # reaped by whoever waits for all children
                    os.waitpid(pid, os.WNOHANG)
            if left or not orphans:  # ending one may orphan others
                return left

    def _is_ours(self, pid: int) -> bool:
        if session_of(pid) in self.sessions:
            return True
        wanted = f"{MARK}={self.environment[MARK]}".encode()
        try:
            return wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:  # another user's, or gone
            return False


def end_strangers(supervisor: int, own: int) -> int:
    """End whatever a supervisor of ``own`` adopted; returns how many would not end.

    Forked trials are below the warm process, and so are their supervisors: what these leave when they
    are killed comes to the supervisor of the warm process, which ends it only with the warm process.

    A process that is killed closes its files before it hands on its children, and each of these may be
    dying as well: nothing is left once two looks find the same children and nobody between them at an end.
    """
    gives_up = time.monotonic() + KILL_WAIT_S
    seen: set[int] | None = None
    while time.monotonic() < gives_up:
        found = set(children(supervisor))
        strangers = [pid for pid in found - {own} if living_since(pid) is not None]
        if strangers and (left := kill_tree(*strangers, grace_s=GRACE_S, spare=[own])):
            return left
        if found == seen and not strangers and not any(map(is_exiting, descendants(own))):
            break
        seen = found
        time.sleep(TURN_S)
    return 0
