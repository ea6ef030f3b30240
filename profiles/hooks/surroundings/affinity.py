"""Whether the program, or what it imports, binds its process to fewer CPUs than it was given."""

import os
import sys
from collections.abc import Callable, Collection
from typing import Any

from advisor.profiles.facts.observed import HostFacts, Location
from advisor.profiles.hooks.patches import Patch
from advisor.profiles.hooks.user_lines import is_ours, user_location

HAS_AFFINITY = hasattr(os, "sched_getaffinity")


class Affinity:
    """Takes note of the CPUs that the process is given, and of the call that leaves it fewer.

    A runtime that binds the process from compiled code is seen by its effect alone, without a place.
    """

    def __init__(self) -> None:
        self._given = _now()
        self._location: Location | None = None
        self._patch = Patch(os, "sched_setaffinity", self._wrap) if HAS_AFFINITY else None

    def install(self) -> None:
        """Watch from now on, before the first line of the program."""
        if self._patch is not None:
            self._patch.install()

    def facts(self) -> HostFacts:
        """CPUs given and left, and where the difference came from."""
        if not HAS_AFFINITY:
            return HostFacts()
        return HostFacts(cpus_given=self._given, cpus_left=_now(), bound_at=self._location)

    def _wrap(self, original: Callable[..., None]) -> Callable[..., None]:
        def sched_setaffinity(pid: int, mask: Collection[int], /) -> Any:
            original(pid, mask)
            if pid in (0, os.getpid()):
                caller = sys._getframe(1)
                if is_ours(caller):  # a knob that is tried
                    self._given = min(self._given, _now())
                else:
                    self._location = user_location(caller)

        return sched_setaffinity


def _now() -> int:
    return len(os.sched_getaffinity(0)) if HAS_AFFINITY else 0
