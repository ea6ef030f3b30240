"""The trials of a run, kept small: about 0.5 kB each, where a trial as an object takes 7 kB."""

import zlib
from collections.abc import Iterable, Sequence
from typing import overload

from advisor.result import Trial


class KeptTrials(Sequence[Trial]):
    """A list of trials that makes each of them anew whenever it is asked for."""

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._packed: list[bytes] = []
        for trial in trials:
            self.append(trial)

    def append(self, trial: Trial) -> None:
        """Keep one more; later changes of the object change nothing here."""
        self._packed.append(zlib.compress(trial.model_dump_json(by_alias=True).encode()))

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, place: int) -> Trial: ...

    @overload
    def __getitem__(self, place: slice) -> list[Trial]: ...

    def __getitem__(self, place: int | slice) -> Trial | list[Trial]:
        if isinstance(place, slice):
            return [_unpacked(packed) for packed in self._packed[place]]
        return _unpacked(self._packed[place])


def _unpacked(packed: bytes) -> Trial:
    return Trial.model_validate_json(zlib.decompress(packed))
