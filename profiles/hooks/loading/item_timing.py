"""What items and batches of a loader cost, timed where the main process fetches them itself."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from advisor.profiles.hooks.busy_time import spent_ns

TIMED = 20  # batches whose items are timed
ENOUGH = 5  # batches, for a median


class ItemTiming:
    """Time of items and of collating, in the first batches, but one, that are fetched in the main process.

    ``items_ms`` holds the mean time per item of each timed batch.
    """

    def __init__(self) -> None:
        self.running = False
        self._first = True
        self.items_ms: list[float] = []
        self._fetcher: Any = None
        self._at_once = False
        self._collate: Callable[[Any], Any] | None = None
        self._began_ns = 0
        self._spent_ns = (0, 0)
        self._collate_ns = 0
        self._items = 1
        self._collates_ns: list[int] = []
        self._computed_ns = 0
        self._free_ns = 0

    @property
    def enough(self) -> bool:
        """Whether the medians can be relied on."""
        return len(self.items_ms) >= ENOUGH

    @property
    def item_ms(self) -> float | None:
        """Median per item, in milliseconds."""
        return statistics.median(self.items_ms) if self.items_ms else None

    @property
    def collate_ms(self) -> float | None:
        """Median per batch, in milliseconds."""
        return statistics.median(self._collates_ns) / 1e6 if self._collates_ns else None

    @property
    def cpu_share(self) -> float | None:
        """Share (0 to 1) that is CPU time of this process, of the time in which nothing kept it from one."""
        return min(1.0, self._computed_ns / self._free_ns) if self._free_ns > 0 else None

    def start(self, iterator: Any) -> None:
        """An epoch begins."""
        self.stop()
        fetcher = getattr(iterator, "_dataset_fetcher", None)  # workers have their own
        if fetcher is None or len(self.items_ms) >= TIMED:
            return
        self._fetcher = fetcher
        self._at_once = fetcher.auto_collation and hasattr(fetcher.dataset, "__getitems__")
        self._collate = fetcher.collate_fn
        fetcher.collate_fn = self._timed_collate
        self.running = True

    def stop(self) -> None:
        """Leave the fetcher as it was."""
        if self._fetcher is not None:
            self._fetcher.collate_fn = self._collate
        self._fetcher = None
        self.running = False

    def begin(self) -> None:
        """A batch is asked for."""
        self._collate_ns = 0
        self._items = 1
        self._began_ns, self._spent_ns = time.perf_counter_ns(), spent_ns()

    def end(self, samples: int) -> None:
        """It was delivered, with so many samples."""
        if not self._began_ns:  # fetched by another thread
            return
        wall = time.perf_counter_ns() - self._began_ns
        if self._first:  # whatever is done once is done now
            self._first = False
            return
        computed, free = spent_ns()
        self._computed_ns += computed - self._spent_ns[0]
        self._free_ns += free - self._spent_ns[1]
        items = max(1, samples) if self._at_once else self._items  # `__getitems__` may give two tensors
        self.items_ms.append((wall - self._collate_ns) / items / 1e6)
        self._collates_ns.append(self._collate_ns)
        if len(self.items_ms) >= TIMED:
            self.stop()

    def _timed_collate(self, items: Any) -> Any:
        assert self._collate is not None
        began = time.perf_counter_ns()
        batch = self._collate(items)
        self._collate_ns = time.perf_counter_ns() - began
        self._items = max(1, len(items)) if isinstance(items, list) else 1
        return batch
