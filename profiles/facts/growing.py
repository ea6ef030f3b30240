"""What a run takes more of from step to step: readings over the steps, and the variables that grow."""

from dataclasses import dataclass

from advisor.profiles.facts.observed import Location


@dataclass(frozen=True)
class Readings:
    """One quantity, read at the ends of blocks of steps.

    ``kind`` is ``step`` or a part of it, in median milliseconds of the clean steps of a block; ``samples`` of
    these; ``open_files``, ``threads``, ``children`` or ``hooks`` (of modules and parameters), a count;
    ``memory``, ``mapped``, ``shared_memory`` (of the whole machine) or ``written``, in bytes. ``limit`` is
    the value that ends the run.
    """

    kind: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    limit: float | None = None


@dataclass(frozen=True)
class GrowingVariable:
    """A container of the program with more entries after each step.

    ``location`` is where the program adds to it. ``holds`` is what its last entries are: ``batch`` (tensors
    as a loader delivered them), ``shared`` (tensors in shared memory, as from a worker), ``files``,
    ``hooks``, ``tensors``, or empty for anything else.
    """

    name: str
    per_step: float
    location: Location | None = None
    holds: str = ""


@dataclass(frozen=True)
class Growth:
    """Everything that was read of growth, since the first steps of the process.

    ``hooks_location`` is the line that registered most hooks on modules and tensors while it trained.
    """

    readings: tuple[Readings, ...] = ()
    variables: tuple[GrowingVariable, ...] = ()
    hooks_location: Location | None = None
