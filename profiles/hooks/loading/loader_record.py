"""What is known of one DataLoader: how it was constructed, what it delivered, and how long it let wait."""

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import LoaderFacts, Location
from advisor.profiles.hooks.loading.batch_look import BatchLook
from advisor.profiles.hooks.loading.dataset_state import State, first_difference, state_of
from advisor.profiles.hooks.loading.drawing import FirstDraws, sampler_of
from advisor.profiles.hooks.loading.first_turns import FirstTurns
from advisor.profiles.hooks.loading.inheritance import Inheritance
from advisor.profiles.hooks.loading.item_timing import ItemTiming
from advisor.profiles.hooks.loading.renewal import open_file, why_fixed
from advisor.profiles.hooks.tensors import leading_sizes

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

OWN_ARGUMENTS = (
    "dataset", "collate_fn", "worker_init_fn", "num_workers", "pin_memory", "in_order", "prefetch_factor",
    "persistent_workers", "timeout", "multiprocessing_context", "batch_size", "batch_sampler",
)  # fmt: skip
MOST_EPOCHS = 1000  # whose waits are kept
MOST_COMPARED = 3  # epochs between which is looked whether the dataset was changed
NESTED = 8  # datasets around one another; one may lead back to itself


class LoaderRecord:
    """One DataLoader, its constructor's arguments and its batches.

    Args:
        loader: The loader, just constructed; it is not kept alive.
        asked: The arguments as the program gave them, defaults left out.
        ordinal: Number of its dataset.
        parent: The loader whose sampler it was given, if any: its settings are the program's own.
        location: Where the program constructed it.
        construct_ns: How long that took; ``None`` where nobody was there.
        looks: Whether to look at its batches.

    Attributes:
        batches: Delivered so far.
        samples: Of those batches.
        wait_ns: For those batches.
        steps: That used its batches.
        samples_in_steps: Samples of those batches.
        steps_before: Steps that loaders of the same line had served when this one was constructed.
        settings: What the program asked for, by fields of ``LoaderFacts``.
        own: The program's own arguments, as far as a switch looks at them.
        fixed: Why its iterators cannot be made anew within an epoch, if so.
        dataset_changes: An attribute that the program changed between two epochs, once one was seen.
        exhausted: Whether the epoch begun last gave all its batches.
        opening: Set until the second batch of an epoch has arrived; then ``turn`` wants to be told of it.
    """

    def __init__(
        self,
        loader: "DataLoader[Any]",
        asked: dict[str, Any],
        ordinal: int,
        parent: "LoaderRecord | None",
        location: Location | None,
        *,
        construct_ns: int | None = 0,
        looks: bool = True,
    ) -> None:
        self.ordinal = ordinal
        self.effective = _effective(loader)
        own: int | None = loader.batch_size
        self.batch_size: int | None = own or (parent.batch_size if parent else None)
        self._axis: int | None = None  # dimension of its batches that counts samples, once that is known
        self.timing = ItemTiming()
        self.first_turns = FirstTurns()
        self.first_draws = FirstDraws()
        self.opening: FirstTurns | None = None
        self.batches = 0
        self.steps = 0
        self.steps_before = 0
        self.samples_in_steps = 0
        self.epochs = 0
        self.construct_ns = construct_ns
        self.epoch_starts_ns: list[int] = []
        self.epoch_end_ns: int | None = None
        self.exhausted = False
        self.epoch_waits_ms: list[float] = []
        self.start_ns = 0
        self.stop_ns = 0
        self.started = 0
        self.dataset: Any = loader.dataset
        self.dataset_changes: str | None = None
        self._state_before: State | None = None
        self._inheritance = Inheritance()
        self.collate: Callable[[Any], Any] | None = loader.collate_fn
        self._loader = weakref.ref(loader)
        self.own = {name: asked[name] for name in OWN_ARGUMENTS if name in asked}
        if parent is not None:
            self.own.update({name: parent.own[name] for name in OWN_ARGUMENTS if name in parent.own})
        self.fixed = why_fixed(loader)
        self._sampler_type, self._sampler_line = sampler_of(loader)
        self._samplers: tuple[Any, ...] = (loader.batch_sampler, loader.sampler)
        self._length: int | None = None
        self.samples = 0
        self._samples_before = 0  # delivered until the last step
        self._batches_before = 0
        self._awaiting_first = False
        self.wait_ns = 0
        self._first_waits_ns = 0
        self._epoch_began = (0, 0)  # batches and wait until then
        self.settings = loader_settings(asked, location)
        # A framework's second loader copies the first one's attributes, which may be changed ones already.
        self._constructed: dict[str, Any] = {**self.settings, **(parent._constructed if parent else {})}
        in_turn = self._constructed["iterable"] and getattr(loader, "in_order", True)
        self.look = BatchLook(loader.num_workers if in_turn else 0)
        self.look.running = looks

    @property
    def line(self) -> tuple[Location | int, str]:
        """What it shares with loaders that the same line of the program made for the same purpose."""
        return self._constructed["location"] or self.ordinal, self._constructed["dataset_type"]

    @property
    def loader(self) -> "DataLoader[Any] | None":
        """The loader, as long as it lives."""
        return self._loader()

    @property
    def length(self) -> int | None:
        """Items of its dataset."""
        return self._length if self.dataset is None else dataset_length(self.dataset)

    @property
    def is_settled(self) -> bool:
        """Whether a batch, until the next epoch, only adds to ``batches``, ``samples`` and ``wait_ns``."""
        return self.opening is None and not (self._awaiting_first or self.timing.running or self.look.running)

    @property
    def usual_wait_ns(self) -> float | None:
        """Mean wait for a batch that is not an epoch's first."""
        waits = self.batches - self.started
        return (self.wait_ns - self._first_waits_ns) / waits if waits else None

    @property
    def pending_batches(self) -> int:
        """Delivered since the last step."""
        return self.batches - self._batches_before

    @property
    def epoch_s(self) -> float | None:
        """Mean seconds to start an epoch: making the iterator and waiting for its first batch."""
        return self.start_ns / self.epochs / 1e9 if self.epochs else None

    def feeds(self, ordinal: int, asked: dict[str, Any]) -> bool:
        """Whether a loader constructed from ``asked`` takes its samples from this one's sampler."""
        given = [asked.get(name) for name in ("batch_sampler", "sampler")]
        inner = [getattr(sampler, "batch_sampler", None) for sampler in given]
        known = [sampler for sampler in self._samplers if sampler is not None]
        return ordinal == self.ordinal and any(s is k for s in (*given, *inner) for k in known)

    def release(self) -> None:
        """Keep nothing alive of a loader that is gone and has a successor."""
        if self._loader() is None and self.dataset is not None:
            self._length = dataset_length(self.dataset)
            self.dataset = self.collate = None
            self._samplers = ()
            self.own.clear()
            self.timing.stop()

    def begin_epoch(self, now_ns: int, spent_ns: int) -> None:
        """The loader was asked for an iterator at ``now_ns``, which took ``spent_ns``."""
        if self.epochs:
            self.look.end_epoch()
        if self._state_before is not None:
            self.dataset_changes = first_difference(self._state_before, state_of(self.dataset, self.collate))
            self._state_before = None
        if not self.epochs:
            self._inheritance.look(self.dataset, self.collate)
        self.epochs += 1
        self.start_ns += spent_ns
        self._awaiting_first = True
        self.exhausted = False
        self._epoch_began = self.batches, self.wait_ns
        self.first_turns.begin()
        self.opening = self.first_turns
        if len(self.epoch_starts_ns) < MOST_EPOCHS:
            self.epoch_starts_ns.append(now_ns)

    def open(self, iterator: Any, drawn_ns: int | None) -> None:
        """An epoch's iterator was made; the first indices took ``drawn_ns``, if they are drawn."""
        self.timing.start(iterator)
        self.first_draws.start(iterator, drawn_ns)

    def turn(self, now_ns: int, waited_ns: int) -> None:
        """A batch was delivered while ``opening`` was set."""
        if self.first_turns.deliver(now_ns, waited_ns, self.batches, self.wait_ns):
            self.opening = None

    def end_epoch(self, now_ns: int, asked_ns: int) -> None:
        """All batches of an epoch were delivered; the program had asked for another one at ``asked_ns``."""
        self.epoch_end_ns = now_ns
        self.exhausted = True
        self.opening = None
        self.first_turns.end(asked_ns, self.batches, self.wait_ns)
        self.timing.stop()
        self.look.end_epoch()
        if self.dataset_changes is None and self.epochs <= MOST_COMPARED:
            # at the end and no earlier: reading items may change a dataset, too, in this process
            self._state_before = state_of(self.dataset, self.collate)
        batches, wait_ns = self._epoch_began
        if self.batches > batches and len(self.epoch_waits_ms) < MOST_EPOCHS:
            self.epoch_waits_ms.append((self.wait_ns - wait_ns) / (self.batches - batches) / 1e6)
        self._epoch_began = self.batches, self.wait_ns

    def deliver(self, batch: Any, waited_ns: int) -> int:
        """A batch arrived after ``waited_ns``; returns how many samples it has."""
        samples = self.size_of(batch)
        self.batches += 1
        self.samples += samples
        self.wait_ns += waited_ns
        if self._awaiting_first:
            self._awaiting_first = False
            self.start_ns += waited_ns
            self._first_waits_ns += waited_ns
            self.started += 1
        if self.timing.running:
            self.timing.end(samples)
        if self.look.running:
            self.look.see(batch)
        return samples

    def size_of(self, batch: Any) -> int:
        """How many samples a batch of this loader has: dimension 0, or 1 where full batches lie so.

        ``pad_sequence`` stacks along dimension 1 unless it is told ``batch_first``.
        """
        sizes = leading_sizes(batch)
        if not sizes:
            return self.batch_size or 0
        if self._axis is None and len(sizes) > 1 and self.batch_size in sizes[:2] and sizes[0] != sizes[1]:
            self._axis = sizes[:2].index(self.batch_size)  # the first batch of a loader is a full one
        return sizes[self._axis] if self._axis is not None and self._axis < len(sizes) else sizes[0]

    def credit(self) -> None:
        """A step used what was delivered since the last one, if anything was."""
        batches = self.batches
        if batches == self._batches_before:
            return
        samples = self.samples
        self.steps += 1
        self.samples_in_steps += samples - self._samples_before
        self._samples_before, self._batches_before = samples, batches

    def drop(self) -> None:
        """What was delivered since the last step served something else."""
        self._samples_before, self._batches_before = self.samples, self.batches

    def facts(self, *, made_here: bool = False) -> LoaderFacts:
        """The loader as constructed, with what was seen of its batches.

        Args:
            made_here: Whether items were made in this process for a look, although there are workers.
        """
        look, timing = self.look, self.timing
        return LoaderFacts(
            **self._constructed,
            dataset=self.ordinal,
            dataset_length=self.length,
            batch_bytes=look.batch_bytes,
            batch_tensors=look.tensors,
            shapes_vary=look.shapes_vary,
            shapes=look.shapes,
            padding_share=look.padding_share,
            duplicate_share=look.duplicate_share,
            item_ms=timing.item_ms,
            collate_ms=timing.collate_ms,
            cpu_share=timing.cpu_share,
            epochs_started=self.epochs,
            dataset_changes=self.dataset_changes,
            inherited=self._inheritance.found(
                made_here=made_here or not self.effective["num_workers"],
                worker_init=getattr(self.loader, "worker_init_fn", None),
            ),
            fixed=self.fixed or open_file(self.dataset),
            sampler_type=self._sampler_type,
            sampler_line=self._sampler_line,
        )


def arguments_of(loader: "DataLoader[Any]") -> dict[str, Any]:
    """What a loader whose construction was not seen must have been given, as its attributes show it."""
    from torch.utils.data import RandomSampler, SequentialSampler
    from torch.utils.data.dataloader import _InfiniteConstantSampler

    arguments: dict[str, Any] = {"dataset": loader.dataset, "num_workers": loader.num_workers}
    names = ("persistent_workers", "pin_memory", "drop_last", "multiprocessing_context", "collate_fn")
    arguments.update((name, getattr(loader, name)) for name in names)
    if loader.num_workers:
        arguments["prefetch_factor"] = loader.prefetch_factor
    if loader.batch_size is None and loader.batch_sampler is not None:
        return {**arguments, "batch_sampler": loader.batch_sampler}
    arguments["batch_size"] = loader.batch_size
    sampler = loader.sampler
    if type(sampler) is RandomSampler and not sampler.replacement:
        arguments["shuffle"] = True
    elif type(sampler) not in (SequentialSampler, _InfiniteConstantSampler):
        arguments["sampler"] = sampler
    return arguments


def loader_settings(asked: dict[str, Any], location: Location | None) -> dict[str, Any]:
    """What the arguments of a loader ask for, and where, by fields of ``LoaderFacts``."""
    from torch.utils.data import IterableDataset

    workers = asked.get("num_workers", 0)
    context = asked.get("multiprocessing_context")
    name = context if isinstance(context, str) or context is None else context.get_start_method()
    return {
        "dataset_type": type(asked["dataset"]).__name__,
        "batch_size": None if asked.get("batch_sampler") is not None else asked.get("batch_size", 1),
        "num_workers": workers,
        "prefetch_factor": (asked.get("prefetch_factor") or 2) if workers else None,
        "persistent_workers": bool(asked.get("persistent_workers", False)),
        "pin_memory": bool(asked.get("pin_memory", False)),
        "multiprocessing_context": name,
        "own_batch_sampler": asked.get("batch_sampler") is not None,
        "own_sampler": asked.get("sampler") is not None,
        "iterable": isinstance(asked["dataset"], IterableDataset),
        "shuffle": bool(asked.get("shuffle", False)),
        "drop_last": bool(asked.get("drop_last", False)),
        "location": location,
        "transformed": is_transformed(asked["dataset"]),
    }


def is_transformed(dataset: Any) -> bool:
    """Whether a dataset, or the one that it is a part of (``Subset``), has a ``transform`` for its items."""
    for _ in range(NESTED):
        own = vars(dataset) if hasattr(dataset, "__dict__") else {}
        if callable(own.get("transform")) or callable(own.get("transforms")):
            return True
        dataset = own.get("dataset")
    return False


def dataset_length(dataset: Any) -> int | None:
    """Items of a dataset; ``None`` where it tells none."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def _effective(loader: "DataLoader[Any]") -> dict[str, int | bool | None]:
    names = ("batch_size", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "drop_last")
    return {name: getattr(loader, name) for name in names}
