"""The reference loop that has a workload's model answer requests: plain torch, observed like a script."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.marked import request
from advisor.tuners.trial.loop import device_of, moved
from advisor.tuners.trial.numerics.kept_outputs import KeptOutputs, digest
from advisor.tuners.trial.served_messages import OutputsTaken, TakeOutputs
from advisor.workloads.gathering import (
    Gatherer,
    Gathering,
    by_length,
    padded_lengths,
    padding_saved,
    taken_apart,
)
from advisor.workloads.inputs import Inputs, arguments_needed, inputs_of, target_of
from advisor.workloads.samples import Samples, dealt
from advisor.workloads.workload import Workload

NOT_APART = "what the model answers has no first dimension of samples"
LOOKED_AT = 256  # samples, for the padding that sorting leaves out


class Server:
    """Loads the model of a workload and has it answer one request after the other.

    The model is in evaluation mode; without a function of the user's own (``infer``) it is called in
    inference mode. Requests are samples of the dataset in a random order that is the same in every process.

    Args:
        workload: Model and data.
        device_name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        run: Learns what calibrates a quantised form, and says how samples are put together.
        seed: Deals the samples.
        whole: The time between requests counts: several samples are a request.
        unheard: Around requests that are not to be counted.
    """

    def __init__(
        self, workload: Workload, device_name: str, run: Run, *, seed: int, whole: bool,
        unheard: Callable[[], AbstractContextManager[Any]],
    ) -> None:  # fmt: skip
        import torch

        self._workload = workload
        self._run = run
        self._whole = whole
        self._unheard = unheard
        self._padding: float | None = None
        self._size, self._looked, self._apart = 1, False, True
        name = device_name if device_name != "auto" else workload.device
        self._device = torch.device(device_of(name))
        self._model = workload.model()
        self._model.to(self._device)
        self._model.eval()
        self._needed = arguments_needed(self._model)
        dataset: Any = workload.dataset()
        self._dataset = dataset
        self._samples = None if _is_stream(dataset) else dealt(len(dataset), seed)
        serving = run.serving
        self._reference = serving.reference
        serving.calibration = self._calibration
        serving.dynamic = workload.dynamic
        serving.example = self._example

    def run(self) -> None:
        """Answer until stopped from outside: a hook ends the process."""
        for batch in self._batches():
            with request():
                output = self.answer(batch)
            if self._size > 1 and not self._looked:
                self._looked = True
                self._look(output)

    def answer(self, batch: Any) -> Any:
        """One request."""
        import torch

        batch = moved(batch, self._device)
        if self._workload.infer is not None:
            return self._workload.infer(self._model, batch)
        args, kwargs = inputs_of(batch, self._needed)
        with torch.inference_mode():
            return self._model(*args, **kwargs)

    def take(self, command: TakeOutputs) -> OutputsTaken:
        """The outputs for samples of one part, unheard by the clock, each with random numbers of its own.

        The program's random numbers go on as if nothing had been asked.
        """
        import torch

        kept, metric = KeptOutputs(), self._workload.metric
        places = () if self._samples is None else getattr(self._samples, command.part)
        if command.reference and not self._reference.known:
            places = ()
        self._reference.answers = command.reference
        began, scored = time.perf_counter(), metric is not None
        with self._unheard(), torch.random.fork_rng():
            for group in self._groups(places[: command.most]):
                if len(kept.keys) and time.perf_counter() - began > command.limit_s:
                    break
                asked = {place: digest(inputs_of(item, self._needed)) for place, item in group}
                for place, output, target in self._answers(group):
                    score = None if metric is None or target is None else float(metric(output, target))
                    scored &= score is not None
                    kept.add(str(place), output, asked[place], score)
        self._reference.answers = False
        kept.write(Path(command.path))
        return OutputsTaken(command.path, len(kept.keys), len(places), scored and bool(kept.keys))

    def facts(self) -> dict[str, Any]:
        """Fields of ``RunFacts``: how samples are put together, where that may be changed."""
        if not self._whole or self._samples is None or not self._apart:
            return {}
        size = self._workload.batch_size
        if self._padding is None:
            places = _all(self._samples)[:LOOKED_AT]
            items = [self._item(place) for place in places] if size > 1 else []
            self._padding = padding_saved(items, self._collate, size)
        return {"requests_batch": size, "requests_padding": self._padding}

    def _plan(self) -> Gathering:
        plan = Gathering(self._workload.batch_size if self._whole else 1)
        self._run.edit("gather", plan)
        self._size = plan.size
        return plan

    def _look(self, output: Any) -> None:
        """Whether samples of one request have outputs of their own."""
        if taken_apart(output, self._size) is not None:
            return
        self._apart = False
        for name in ("serving_batch", "length_bucketing"):
            if name in self._run.asked:
                self._run.refuse(name, NOT_APART)

    def _batches(self) -> Iterator[Any]:
        if self._samples is None:
            yield from self._streamed(self._plan().size)
        items = map(self._item, itertools.cycle(_all(self._samples)))
        yield from map(self._collate, Gatherer(items, self._plan))

    def _groups(self, places: Sequence[int]) -> Iterator[list[tuple[int, Any]]]:
        """Places and items of requests as they are put together now."""
        plan = self._plan()
        together = plan.size * plan.pool
        for first in range(0, len(places), together):
            chosen = [(place, self._item(place)) for place in places[first : first + together]]
            if plan.pool > 1:
                yield from by_length(chosen, plan.size, lambda pair: pair[1])
            else:
                yield chosen

    def _answers(self, group: Sequence[tuple[int, Any]]) -> list[tuple[int, Any, Any]]:
        """Place, output and target of each sample, answered together where that can be taken apart again."""
        import torch

        items = [item for _, item in group]
        batch, count = self._collate(items), len(items)
        torch.manual_seed(group[0][0])
        if count == 1:
            return [(group[0][0], self.answer(batch), target_of(batch, self._needed))]
        outputs = taken_apart(self.answer(batch), count, padded_lengths(items, batch))
        given = target_of(batch, self._needed)
        targets = [None] * count if given is None else taken_apart(given, count)
        if outputs is None or targets is None:
            return [each for pair in group for each in self._answers([pair])]
        return [(place, *both) for (place, _), *both in zip(group, outputs, targets, strict=True)]

    def _streamed(self, size: int) -> Iterator[Any]:
        while True:
            items, empty = iter(self._dataset), True
            while chunk := list(itertools.islice(items, size)):
                empty = False
                yield self._collate([self._bare(item) for item in chunk])
            if empty:
                raise ValueError("the dataset gives no sample")
            if iter(self._dataset) is self._dataset:  # a generator gives its items once
                self._dataset = self._workload.dataset()

    def _item(self, place: int) -> Any:
        return self._bare(self._dataset[place])

    def _bare(self, item: Any) -> Any:
        """The input of an item that is a tuple of nothing else, as of ``TensorDataset(inputs)``."""
        own = self._workload.infer or self._workload.collate
        return item[0] if own is None and isinstance(item, tuple) and len(item) == 1 else item

    def _collated(self, places: Iterable[int]) -> Any:
        return self._collate([self._item(place) for place in places])

    def _collate(self, items: list[Any]) -> Any:
        from torch.utils.data import default_collate

        return (self._workload.collate or default_collate)(items)

    def _calibration(self) -> Iterator[Inputs]:
        if self._workload.calibration is not None:
            batches = iter(self._workload.calibration())
        else:
            places = () if self._samples is None else self._samples.calibration
            batches = (self._collated([place]) for place in places)
        for batch in batches:
            yield inputs_of(moved(batch, self._device), self._needed)

    def _example(self) -> Inputs | None:
        example = self._workload.example_inputs
        if example is None:
            return None
        return ((), dict(example)) if isinstance(example, dict) else (tuple(example), {})


def _is_stream(dataset: Any) -> bool:
    """Whether it has no places that could be asked for."""
    from torch.utils.data import IterableDataset

    indexed = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    return not indexed or isinstance(dataset, IterableDataset)


def _all(samples: Samples | None) -> "list[int]":
    """Every sample, in one order; that of a stream is its own."""
    if samples is None:
        return []
    return [*samples.selection, *samples.confirmation, *samples.calibration]
