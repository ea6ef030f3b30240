"""Batches of the training loader, fetched ahead once, that stand in for it as often as they are wanted."""

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

from advisor.profiles.hooks.loading.loaders import Loaders
from advisor.profiles.hooks.tensors import each_tensor


class RecordedBatches:
    """Records what comes next, gives it again and again, and at last once more as if it were just fetched.

    Nothing is lost or given twice to the program that goes on afterwards. Each time a copy is given: programs
    change their batches in place. All methods but what the loader calls are for step borders.
    """

    def __init__(self, loaders: Loaders) -> None:
        self._loaders = loaders
        self._ahead: deque[Any] = deque()
        self._iterator: Any = None
        self._count = self._most_bytes = self._next = 0
        self._bytes = 0
        self._fetched = False

    @property
    def count(self) -> int:
        """Batches that are recorded, beyond those that were given."""
        return len(self._ahead)

    @property
    def bytes(self) -> int:
        """Of the tensors in all that was fetched ahead."""
        return self._bytes

    def record(self, steps: int, most_bytes: int) -> bool:
        """Fetch the batches of so many steps ahead, when the next one is asked for.

        An epoch that ends sooner, and ``most_bytes`` in tensors, leave fewer, which are then repeated.

        Returns:
            Whether there is anything to record: a loader of torch that feeds the steps.
        """
        training = self._loaders.training()
        if training is None:
            return False
        self._count = steps * max(1, round(training.batches / max(1, training.steps)))
        self._most_bytes, self._bytes, self._fetched = most_bytes, 0, False
        self._loaders.replace_batches(self._fetch)
        return True

    def replay(self, shift: int = 0) -> None:
        """Give the recorded batches from the first on, over and over; or from that of number ``shift``."""
        self._next = shift
        self._loaders.replace_batches(self._repeat)

    def release(self) -> None:
        """Give the recorded batches once more, then what the loader fetches."""
        self._loaders.replace_batches(self._give_back if self._ahead else None)

    def _fetch(self, iterator: Any, fetch: Callable[[], Any]) -> Any:
        if not self._fetched:
            if iterator is not self._iterator:
                self._ahead.clear()
            if not self._ahead:
                self._ahead.append(fetch())  # at the end of an epoch this ends the loop, as it should
            self._iterator, self._fetched = iterator, True
            while len(self._ahead) <= self._count and self._bytes < self._most_bytes:
                self._bytes += sum(each.nbytes for each in each_tensor(self._ahead[-1]))
                try:
                    self._ahead.append(fetch())
                except StopIteration:
                    break
        return self._give_back(iterator, fetch)

    def _repeat(self, iterator: Any, fetch: Callable[[], Any]) -> Any:
        batch = self._ahead[self._next % len(self._ahead)]
        self._next += 1
        return copy.deepcopy(batch)

    def _give_back(self, iterator: Any, fetch: Callable[[], Any]) -> Any:
        if iterator is self._iterator and self._ahead:
            return self._ahead.popleft()
        self._ahead.clear()  # the program has left that epoch, or used it up
        self._iterator = None
        self._loaders.replace_batches(None)
        return fetch()
