"""Batches that each worker prepares ahead."""

from typing import Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.worker_knob import WorkerSetting

TORCH_DEFAULT = 2


class PrefetchFactor(WorkerSetting[int]):
    """How many batches each worker keeps ready.

    A longer queue bridges items whose preparation time varies; it does not make workers faster. No
    effect could be told from noise where it was measured. It costs workers x factor x batch bytes of
    memory, and of /dev/shm. Without workers it does not exist and is refused.
    """

    semantics = Semantics.EXACT

    def values(self) -> range:
        return range(1, 1025)

    def present(self, profile: Profile) -> int:
        if profile.loader is None:
            raise Refused("the program uses no DataLoader")
        return profile.loader.prefetch_factor or TORCH_DEFAULT

    def choices(self, profile: Profile) -> list[int]:
        present = self.present(profile)
        return [present, *(n for n in (2, 4, 8) if n != present)]

    def check(self, value: int, profile: Profile) -> None:
        self.present(profile)

    def _set(self, arguments: dict[str, Any], value: int) -> None:
        arguments["prefetch_factor"] = value

    def change(self, value: int) -> Change:
        return Change(f"DataLoader(..., prefetch_factor={value})")
