"""Data loaders: what the program asks for, what it gets, and how long it waits for each batch."""

import gc
import inspect
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import LoaderFacts, Location
from advisor.profiles.hooks.loading.changed_batches import ChangedBatches
from advisor.profiles.hooks.loading.loader_line import LoaderLine
from advisor.profiles.hooks.loading.loader_probe import LoaderProbe, Probed
from advisor.profiles.hooks.loading.loader_record import LoaderRecord, arguments_of
from advisor.profiles.hooks.loading.noted_batch import NotedBatch
from advisor.profiles.hooks.loading.remade import made_anew
from advisor.profiles.hooks.loading.switching import Iterated, Switching
from advisor.profiles.hooks.ordinals import Ordinals
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import LOADER, Clock
from advisor.profiles.hooks.tensors import tensor_type
from advisor.profiles.hooks.user_lines import user_location

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

StandIn = Callable[[Any, Callable[[], Any]], Any]
"""Gives a batch, by an iterator and what fetches its next one."""


class Loaders:
    """Watches every DataLoader, and emits ``loader`` and ``batches`` for those of the training dataset."""

    def __init__(self, run: Run, clock: Clock, scope: Scope) -> None:
        from torch.utils.data import DataLoader
        from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

        self._run = run
        self._clock = clock
        self._scope = scope
        self._signature = inspect.signature(DataLoader.__init__)
        self._ordinals = Ordinals()
        self._of_loader: weakref.WeakKeyDictionary[Any, LoaderRecord] = weakref.WeakKeyDictionary()
        # By identity, with what takes them out again: a look-up by weak reference costs more than all else.
        self._of_iterator: dict[int, Iterated] = {}
        self.switching = Switching(run, clock.now_ns, self._of_iterator)
        self._latest: LoaderRecord | None = None  # that delivered
        self._usual: LoaderRecord | None = None  # the latest, if only time and samples are left to count
        self._earlier: list[LoaderRecord] = []  # that delivered since the last step, before the latest
        self._credited = 0  # updates after which was asked whose batches they used
        self._constructing = False
        self._probed: Probed | None = None
        self.stand_in: StandIn | None = None
        self.noted = NotedBatch()
        self.noted.ask = self.look_up
        self.records: list[LoaderRecord] = []
        self.patches = [
            Patch(DataLoader, "__init__", self._wrap_init),
            Patch(DataLoader, "__iter__", self._wrap_iter),
            Patch(_BaseDataLoaderIter, "__next__", self._wrap_next),
            Patch(_MultiProcessingDataLoaderIter, "_shutdown_workers", self._wrap_shutdown),
            Patch(_MultiProcessingDataLoaderIter, "_next_index", self._wrap_next_index),
        ]

    def install(self) -> None:
        """Watch loaders from now on."""
        for patch in self.patches:
            patch.install()
        self._run.reload = self._switch

    def remove(self) -> None:
        """Stop watching; loaders keep the arguments they were given."""
        for patch in self.patches:
            patch.remove()
        for record in self.records:
            record.timing.stop()

    def adopt(self) -> None:
        """Watch iterators that are in use already, of loaders that are alive.

        All objects known to the garbage collector are looked at (about 0.1 s).
        """
        from torch.utils.data import DataLoader
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        # type(), never isinstance(): that asks __class__, which lazy proxies answer by importing things
        living = [(thing, type(thing)) for thing in gc.get_objects()]
        loaders = [thing for thing, kind in living if issubclass(kind, DataLoader)]
        for iterator in [thing for thing, kind in living if issubclass(kind, _BaseDataLoaderIter)]:
            for loader in loaders:
                if iterator._index_sampler is loader._index_sampler and iterator._dataset is loader.dataset:
                    record = self._of_loader.get(loader) or self._meet(loader)
                    self._remember(iterator, record, loader)
                    record.timing.start(iterator)

    def _switch(self) -> None:
        """Loaders of the training, and their iterators in use, follow what subscribers ask for now."""
        line = self._training_line()
        if line is None:
            return
        if self._run.training_dataset is None:
            self._run.training_dataset = line.main.ordinal
        self._usual = None
        self.switching.switch([each for each in line.records if not each.fixed], line.main.ordinal)

    def _catch_up(self) -> None:
        """Credit the batches that the updates since the last delivery have used."""
        if self._clock.updates != self._credited:
            self._credited = self._clock.updates
            self.credit()

    def credit(self) -> None:
        """A step is over: it belongs to the loaders that delivered since the last one.

        Of several that the same line made, those that delivered as often as the latest: what delivered
        more was an evaluation in between.
        """
        latest = self._latest
        if latest is None:
            return
        if not self._earlier:
            latest.credit()
            return
        if not latest.pending_batches:
            return
        delivered = [*self._earlier, latest]
        pending = {record.line: record.pending_batches for record in delivered}
        for record in delivered:
            if record.pending_batches == pending[record.line]:
                record.credit()
            else:
                record.drop()
        self._earlier.clear()

    def training(self) -> LoaderRecord | None:
        """The loader whose batches preceded the most steps; before any step, the most used one."""
        line = self._training_line()
        return None if line is None else line.main

    def samples_in_steps(self) -> int:
        """Samples that steps have used, of all loaders that the training loader's line made."""
        line = self._training_line()
        return 0 if line is None else line.samples_in_steps()

    def facts(self) -> LoaderFacts | None:
        """The training loader as the program constructed it."""
        line = self._training_line()
        return None if line is None else line.facts(self._probed)

    def probe(self) -> None:
        """Cost out the training loader; between two steps of a process that only times count of."""
        line = self._training_line()
        record = None if line is None else line.newest
        if line is None or record is None or record.collate is None:
            return
        watched, self._scope.active = self._scope.active, False  # what the dataset does now is no training
        try:
            probe = LoaderProbe(
                record.dataset, record.collate, record.batch_size, line.main.look.outline, self._clock
            )
            self._probed = probe.run()
        finally:
            self._scope.active = watched

    def _training_line(self) -> LoaderLine | None:
        self._catch_up()
        lines: dict[Any, list[LoaderRecord]] = {}
        for record in self.records:
            if record.batches:
                lines.setdefault(record.line, []).append(record)
        used = [LoaderLine(records) for records in lines.values()]
        return max(used, key=lambda line: (line.steps, line.batches), default=None)

    def _wrap_init(self, original: Callable[..., None]) -> Callable[..., None]:
        def __init__(loader: "DataLoader[Any]", *args: Any, **kwargs: Any) -> None:
            if self._constructing or not self._scope.active:
                return original(loader, *args, **kwargs)
            try:
                bound = self._signature.bind(loader, *args, **kwargs)
            except TypeError:
                return original(loader, *args, **kwargs)  # torch's own message for wrong arguments
            self._constructing = True
            try:
                self._construct(original, loader, dict(bound.arguments))
            finally:
                self._constructing = False

        return __init__

    def _construct(
        self, original: Callable[..., None], loader: "DataLoader[Any]", given: dict[str, Any]
    ) -> None:
        arguments = {name: value for name, value in given.items() if name != "self"}
        asked, location = dict(arguments), user_location()
        ordinal = self._number(asked, location)
        if self._run.training_dataset in (None, ordinal):
            self.switching.change(arguments, ordinal)
            # a dataset put in its place is the same one: frameworks build a second loader from the first
            self._ordinals.same(arguments["dataset"], ordinal)
        began = self._clock.now_ns()
        original(loader, **arguments)
        construct_ns = self._clock.now_ns() - began
        parent = next((r for r in reversed(self.records) if r.feeds(ordinal, asked)), None)
        self._file(
            loader,
            LoaderRecord(loader, asked, ordinal, parent, location, construct_ns=construct_ns),
        )

    def _number(self, asked: dict[str, Any], location: Location | None) -> int:
        """Of the dataset; one that is made anew keeps the number of the one before, and is changed itself."""
        dataset = asked["dataset"]
        if self._ordinals.known(dataset) is None:
            self._catch_up()
            ordinal = made_anew(self.records, asked, location)
            if ordinal is not None:
                self.switching.forget(ordinal)
                self._ordinals.same(dataset, ordinal)
        return self._ordinals.of(dataset)

    def _meet(self, loader: "DataLoader[Any]") -> LoaderRecord:
        """A loader that was constructed before we came, or without its constructor."""
        asked = arguments_of(loader)
        record = LoaderRecord(loader, asked, self._ordinals.of(loader.dataset), None, None, construct_ns=None)
        self._file(loader, record)
        return record

    def _file(self, loader: "DataLoader[Any]", record: LoaderRecord) -> None:
        self._line_up(record)
        self.records.append(record)
        self._of_loader[loader] = record

    def _line_up(self, record: LoaderRecord) -> None:
        """A new loader takes its place behind those of its line."""
        self._catch_up()
        for other in self.records:
            if other.line == record.line:
                other.release()
                record.steps_before += other.steps
                record.look.running &= other.look.running  # they deliver the same kind of batches

    def _wrap_iter(self, original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def __iter__(loader: "DataLoader[Any]") -> Iterator[Any]:
            if not self._scope.here():
                return original(loader)
            record = self._of_loader.get(loader) or self._meet(loader)
            self._usual = None
            self._catch_up()
            if record.exhausted and not self._clock.backwards:  # the pass before was an evaluation
                record.drop()
            began = self._clock.now_ns()
            self._clock.flag("epoch")
            self._clock.push("input_wait")
            try:
                iterator = original(loader)
            finally:
                record.begin_epoch(began, self._clock.pop())
            self._remember(iterator, record, loader)
            if self._scope.active:  # a listener of the phase may have ended the watching
                record.open(iterator, self.switching.drawn.first_ns(iterator))
            is_training = self._run.training_dataset in (None, record.ordinal)
            if not (is_training and "batches" in self._run.events):
                return iterator
            changed = self._run.batches(iterator)
            return iterator if changed is iterator else ChangedBatches(changed, iterator)

        return __iter__

    def _remember(self, iterator: Any, record: LoaderRecord, loader: "DataLoader[Any]") -> None:
        key, known = id(iterator), self._of_iterator
        alive = weakref.ref(iterator, lambda _: known.pop(key, None))
        attributes = {**vars(loader), "_iterator": None}
        known[key] = Iterated(record, alive, weakref.ref(loader), type(loader), attributes)

    def _wrap_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        known, scope, clock = self._of_iterator, self._scope, self._clock
        stack, spent, note, wall_ns = clock.stack, clock.spent, clock.spent.append, clock.wall_ns
        tensor = tensor_type()

        def __next__(iterator: Any) -> Any:
            entry = known.get(id(iterator))
            if entry is None:
                return original(iterator)
            record, source = entry.record, iterator if entry.successor is None else entry.successor
            if get_ident() != scope.watched:
                batch = original(source)
                if scope.active:  # a thread of the program fetches ahead
                    record.fixed = record.fixed or "a thread of the program fetches its batches"
                    self._catch_up()
                    clock.loader_samples += record.deliver(batch, 0)
                    self._turn_to(record)
                return batch
            if record is self._usual and clock.plain and not stack:
                noted, began = len(spent), wall_ns()
                try:
                    batch = original(source)
                except StopIteration:
                    record.end_epoch(clock.now_ns(), clock.program_ns(began))
                    known.pop(id(iterator), None)
                    raise
                finally:
                    waited = took = wall_ns() - began
                    if len(spent) != noted:
                        took -= sum(spent[noted + 1 :: 2])
                    note("input_wait")
                    note(took)
                if clock.updates != self._credited:
                    self._credited = clock.updates
                    record.credit()
                first = batch[0] if type(batch) is list and batch else batch
                samples: int = first.size(0) if type(first) is tensor and first.dim() else 0
                if samples != record.batch_size:
                    samples = record.size_of(batch)
                record.batches += 1
                record.samples += samples
                record.wait_ns += waited
                clock.loader_samples += samples
                return batch
            clock.push("input_wait")
            if record.timing.running:
                record.timing.begin()
            try:
                batch = (
                    original(source) if self.stand_in is None else self._stand_in(original, entry, iterator)
                )
            except StopIteration:
                record.end_epoch(clock.now_ns(), clock.began_ns())
                known.pop(id(iterator), None)
                raise
            finally:
                waited = clock.pop()
            if self.noted.wanted:
                self.noted.take(batch)
            self._catch_up()
            clock.loader_samples += record.deliver(batch, waited)
            if entry.starting:
                self.switching.began(entry, waited)
            if record.opening is not None:
                record.turn(clock.now_ns(), waited)
            if record is not self._latest:
                self._turn_to(record)
            is_alone = self.stand_in is None and not self._earlier
            self._usual = record if is_alone and record.is_settled else None
            if clock.rank <= LOADER:
                clock.batch_delivered()
            return batch

        return __next__

    def _wrap_shutdown(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        known, clock = self._of_iterator, self._clock

        def _shutdown_workers(iterator: Any) -> None:
            entry = known.get(id(iterator))
            if entry is None or not self._scope.here():
                return original(iterator)
            began = clock.now_ns()
            original(iterator)
            entry.record.stop_ns += clock.now_ns() - began

        return _shutdown_workers

    def _wrap_next_index(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        draw = self.switching.drawn.draw
        return lambda iterator: draw(original, iterator)

    def _stand_in(self, original: Callable[[Any], Any], entry: Iterated, iterator: Any) -> Any:
        """What a replay gives in place of a batch; an evaluation's loader goes on as before."""
        source = iterator if entry.successor is None else entry.successor
        training = self.training()
        if training is None or entry.record.line != training.line or self.stand_in is None:
            return original(source)
        return self.stand_in(iterator, lambda: original(source))

    def replace_batches(self, stand_in: StandIn | None) -> None:
        """Give what ``stand_in`` gives in place of the training loader's batches; ``None``: fetch."""
        self.stand_in = stand_in
        self.look_up()

    def look_up(self) -> None:
        """Take the long way for the next batch, on which everything about it is seen."""
        self._usual = None

    def _turn_to(self, record: LoaderRecord) -> None:
        """This loader delivered; maybe another one than the last time."""
        if record is self._latest:
            return
        self._usual = None
        if self._latest is not None and self._latest.pending_batches:
            self._earlier.append(self._latest)
        if record in self._earlier:
            self._earlier.remove(record)
        self._latest = record
