"""What is known of one DataLoader: how it was constructed, what it delivered, what items cost."""

import statistics
import sys
import sysconfig
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.tensors import inner_shapes, total_bytes
from advisor.profiles.profile import LoaderFacts, Location

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

LOOKED_AT = 32  # batches whose bytes and shapes are compared
TIMED = 20  # batches whose items are timed
LIBRARIES = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib"))


class LoaderRecord:
    """One DataLoader, its constructor's arguments and its batches.

    Args:
        loader: The loader, just constructed; it is not kept.
        asked: The arguments as the program gave them, defaults left out.
        ordinal: Number of its dataset.
        parent: The loader whose sampler it was given, if any: its settings are the program's own.
        location: Where the program constructed it.
    """

    def __init__(
        self,
        loader: "DataLoader[Any]",
        asked: dict[str, Any],
        ordinal: int,
        parent: "LoaderRecord | None",
        location: Location | None,
    ) -> None:
        self.ordinal = ordinal
        self.effective = _effective(loader)
        own: int | None = loader.batch_size
        self.batch_size: int | None = own or (parent.batch_size if parent else None)
        self.timing = ItemTiming()
        self.batches = 0
        self.samples = 0
        self.steps = 0
        self.samples_in_steps = 0
        self.epochs = 0
        self._samplers = (loader.batch_sampler, loader.sampler)
        self._dataset = loader.dataset
        self._epoch_ns = 0
        self._awaiting_first = False
        self._bytes: int | None = None
        self._shapes: tuple[tuple[int, ...], ...] | None = None
        self._vary: bool | None = None
        self._constructed = _constructed(asked, loader, parent, location)

    def feeds(self, ordinal: int, asked: dict[str, Any]) -> bool:
        """Whether a loader constructed from ``asked`` takes its samples from this one's sampler."""
        given = [asked.get(name) for name in ("batch_sampler", "sampler")]
        inner = [getattr(sampler, "batch_sampler", None) for sampler in given]
        known = [sampler for sampler in self._samplers if sampler is not None]
        return ordinal == self.ordinal and any(s is k for s in (*given, *inner) for k in known)

    def begin_epoch(self, spent_ns: int) -> None:
        """The loader was asked for an iterator, which took ``spent_ns``."""
        self.epochs += 1
        self._epoch_ns += spent_ns
        self._awaiting_first = True

    def deliver(self, batch: Any, samples: int, waited_ns: int) -> None:
        """A batch arrived after ``waited_ns``."""
        self.batches += 1
        self.samples += samples
        if self._awaiting_first:
            self._awaiting_first = False
            self._epoch_ns += waited_ns
        if self.timing.running:
            self.timing.end()
        if self.batches <= LOOKED_AT:
            self._look_at(batch)

    def credit(self) -> None:
        """A step used what was delivered so far."""
        self.steps += 1
        self.samples_in_steps = self.samples

    @property
    def epoch_s(self) -> float | None:
        """Mean seconds to start an epoch: making the iterator and waiting for its first batch."""
        return self._epoch_ns / self.epochs / 1e9 if self.epochs else None

    def facts(self) -> LoaderFacts:
        """The loader as constructed, with what was seen of its batches."""
        return LoaderFacts(
            **self._constructed,
            dataset=self.ordinal,
            dataset_length=_length(self._dataset),
            batch_bytes=self._bytes,
            shapes_vary=self._vary,
            item_ms=self.timing.item_ms,
            collate_ms=self.timing.collate_ms,
            cpu_share=self.timing.cpu_share,
            epochs_started=self.epochs,
        )

    def _look_at(self, batch: Any) -> None:
        shapes = inner_shapes(batch)
        if self._shapes is None:
            self._shapes = shapes
            self._bytes = total_bytes(batch)
        else:
            self._vary = bool(self._vary) or shapes != self._shapes


class ItemTiming:
    """Time of items and of collating, in the first batches that are fetched in the main process."""

    def __init__(self) -> None:
        self.running = False
        self._fetcher: Any = None
        self._collate: Callable[[Any], Any] | None = None
        self._began = (0, 0)
        self._collate_ns = 0
        self._items = 1
        self._item_ns: list[float] = []
        self._collates_ns: list[int] = []
        self._wall_ns = 0
        self._cpu_ns = 0

    @property
    def item_ms(self) -> float | None:
        """Median per item, in milliseconds."""
        return statistics.median(self._item_ns) / 1e6 if self._item_ns else None

    @property
    def collate_ms(self) -> float | None:
        """Median per batch, in milliseconds."""
        return statistics.median(self._collates_ns) / 1e6 if self._collates_ns else None

    @property
    def cpu_share(self) -> float | None:
        """Share (0 to 1) of the time that is CPU time of this process."""
        return min(1.0, self._cpu_ns / self._wall_ns) if self._wall_ns else None

    def start(self, iterator: Any) -> None:
        """An epoch begins."""
        self.stop()
        fetcher = getattr(iterator, "_dataset_fetcher", None)  # workers have their own
        if fetcher is None or len(self._item_ns) >= TIMED:
            return
        self._fetcher = fetcher
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
        if self.running:
            self._collate_ns = 0
            self._items = 1
            self._began = (time.perf_counter_ns(), time.process_time_ns())

    def end(self) -> None:
        """It was delivered."""
        if not self._began[0]:  # fetched by another thread
            return
        wall = time.perf_counter_ns() - self._began[0]
        self._cpu_ns += time.process_time_ns() - self._began[1]
        self._wall_ns += wall
        self._item_ns.append((wall - self._collate_ns) / self._items)
        self._collates_ns.append(self._collate_ns)
        if len(self._item_ns) >= TIMED:
            self.stop()

    def _timed_collate(self, items: Any) -> Any:
        assert self._collate is not None
        began = time.perf_counter_ns()
        batch = self._collate(items)
        self._collate_ns = time.perf_counter_ns() - began
        self._items = max(1, len(items)) if isinstance(items, list) else 1
        return batch


def user_location() -> Location | None:
    """The innermost frame that is neither a library's nor ours."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        ours = str(frame.f_globals.get("__name__", "")).startswith("advisor.")
        if not ours and not file.startswith((*LIBRARIES, "<")):
            return Location(file, frame.f_lineno, frame.f_code.co_name)
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def _constructed(
    asked: dict[str, Any], loader: "DataLoader[Any]", parent: LoaderRecord | None, location: Location | None
) -> dict[str, Any]:
    from torch.utils.data import IterableDataset

    workers = asked.get("num_workers", 0)
    context = asked.get("multiprocessing_context")
    name = context if isinstance(context, str) or context is None else context.get_start_method()
    settings = {
        "dataset_type": type(asked["dataset"]).__name__,
        "batch_size": None if asked.get("batch_sampler") is not None else asked.get("batch_size", 1),
        "num_workers": workers,
        "prefetch_factor": (asked.get("prefetch_factor") or 2) if workers else None,
        "persistent_workers": bool(asked.get("persistent_workers", False)),
        "pin_memory": bool(asked.get("pin_memory", False)),
        "multiprocessing_context": name,
        "own_batch_sampler": asked.get("batch_sampler") is not None,
        "own_sampler": asked.get("sampler") is not None,
        "iterable": isinstance(loader.dataset, IterableDataset),
        "shuffle": bool(asked.get("shuffle", False)),
        "drop_last": bool(asked.get("drop_last", False)),
        "location": location,
    }
    # A framework's second loader copies the first one's attributes, which may be changed ones already.
    return {**settings, **parent._constructed} if parent else settings


def _effective(loader: "DataLoader[Any]") -> dict[str, int | bool | None]:
    names = ("batch_size", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "drop_last")
    return {name: getattr(loader, name) for name in names}


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None
