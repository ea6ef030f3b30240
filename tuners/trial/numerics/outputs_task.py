"""What a script's requests ask and how they are answered, kept as they come or asked again."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from advisor.profiles.events import Reference
from advisor.profiles.hooks.step.clock import Step
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.trial.numerics.kept_inputs import KeptInputs, NotPlain
from advisor.tuners.trial.numerics.kept_outputs import KeptOutputs, digest
from advisor.tuners.trial.numerics.request_samples import RequestSamples
from advisor.tuners.trial.served_messages import InputsTaken, OutputsTaken, TakeInputs, TakeOutputs


class OutputsTask:
    """Keeps what is answered until there is enough of it.

    Args:
        watch: Its requests are listened to.
        command: How many, and where to.
        reference: Of the form that is served, where it has one.
    """

    def __init__(self, watch: Watch, command: TakeOutputs, reference: Reference) -> None:
        self._reference = reference
        self._missing = command.reference and not reference.known
        self._watch = watch
        self._command = command
        self._kept = KeptOutputs()
        self._samples = RequestSamples(command.most)
        self._apart = command.apart
        self._came: Counter[str] = Counter()

    def begin(self) -> None:
        """Listen from now on."""
        self._began = time.perf_counter()
        self._reference.answers = self._command.reference
        self._watch.requests.listener = None if self._missing else self._keep

    def take(self, step: Step) -> bool:
        """A request ended."""
        late = time.perf_counter() - self._began > self._command.limit_s
        if self._apart is None and self._samples.several and self._samples.enough:
            self._apart = _seen_apart(self._watch, self._samples)
        enough = self._apart and self._samples.enough
        return self._missing or late or bool(enough) or len(self._kept.keys) >= self._command.most

    def finish(self) -> OutputsTaken:
        """All that was kept, in a file."""
        self._watch.requests.listener = None
        if self._apart is None:
            self._apart = _seen_apart(self._watch, self._samples)
        self._reference.answers = False
        return _written(self._command, self._samples.kept if self._apart else self._kept, self._apart)

    def _keep(self, kind: str, args: Any, kwargs: Any, output: Any) -> None:
        if not self._apart:
            name = digest((args, kwargs))
            self._came[name] += 1
            self._kept.add(f"{name}-{self._came[name]}", output, name)
        if self._apart is not False:
            self._samples.add(kind, args, kwargs, output, self._samples.names(args, kwargs))


class InputsTask:
    """Keeps what is asked until there is enough of it.

    Args:
        watch: Its requests are listened to.
        command: How many, and where to.
    """

    def __init__(self, watch: Watch, command: TakeInputs) -> None:
        self._watch = watch
        self._command = command
        self._kept = KeptInputs()

    def begin(self) -> None:
        """Listen from now on."""
        self._began = time.perf_counter()
        self._watch.requests.listener = self._keep

    def take(self, step: Step) -> bool:
        """A request ended."""
        late = time.perf_counter() - self._began > self._command.limit_s
        return late or self._kept.full or len(self._kept.kinds) >= self._command.most

    def finish(self) -> InputsTaken:
        """All that was kept, in a file."""
        self._watch.requests.listener = None
        self._kept.write(Path(self._command.path))
        return InputsTaken(len(self._kept.kinds))

    def _keep(self, kind: str, args: Any, kwargs: Any, output: Any) -> None:
        try:
            self._kept.add(kind, args, kwargs)
        except NotPlain:
            return


def asked_again(watch: Watch, command: TakeOutputs, reference: Reference) -> OutputsTaken:
    """Outputs for inputs that were kept, unheard by the clock, each with random numbers of its own.

    The program's random numbers go on as if nothing had been asked.
    """
    import torch

    asked, kept = KeptInputs.read(Path(command.inputs)), KeptOutputs()
    samples, apart = RequestSamples(command.most), command.apart
    asks, began = watch.requests.asks, time.perf_counter()
    missing = command.reference and not reference.known
    reference.answers = command.reference
    with watch.requests.unheard(), torch.random.fork_rng():
        for place, kind in enumerate([] if missing else asked.kinds[: command.most]):
            late = time.perf_counter() - began > command.limit_s
            if (len(kept.keys) and late) or (apart and samples.enough):
                break
            if kind in asks:
                args, kwargs = asked.args[place], asked.kwargs[place]
                name = digest((args, kwargs))  # before the program may write into them
                names = [] if apart is False else samples.names(args, kwargs)
                torch.manual_seed(place)
                output = asks[kind](*args, **kwargs)
                kept.add(str(place), output, name)
                if apart is not False:
                    samples.add(kind, args, kwargs, output, names)
    if apart is None:
        apart = _seen_apart(watch, samples)
    reference.answers = False
    return _written(command, samples.kept if apart else kept, apart)


def _seen_apart(watch: Watch, samples: RequestSamples) -> bool:
    """Whether samples of a request are answered as if each were alone, seen unheard by the clock."""
    import torch

    with watch.requests.unheard(), torch.random.fork_rng():
        return samples.apart(watch.requests.asks)


def _written(command: TakeOutputs, kept: KeptOutputs, apart: bool) -> OutputsTaken:
    kept.write(Path(command.path))
    return OutputsTaken(command.path, len(kept.keys), None, False, apart)
