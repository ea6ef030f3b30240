"""The Python face: ``advisor.tune(...)`` on factories or live objects, and a result that shows itself.

Nothing is run in the caller's process: what is given is copied into others, so that model, optimizer and
random state are afterwards as they were.
"""

import multiprocessing
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_args

from advisor.base.durations import parse_duration, parse_latency
from advisor.base.errors import ArgumentError, SituationError, TargetError, UsageError
from advisor.base.settings import Objective, Progress, Settings, TargetRequest, Value
from advisor.notebook.live_objects import Applied, apply
from advisor.report.pages import compare_page
from advisor.report.progress import in_notebook, progress_here
from advisor.report.showing import mime_bundle
from advisor.result.compare import ComparisonData, Given, compare
from advisor.result.document import IN_PYTHON, Finding, ProfileData, Recommendation, ResultData
from advisor.tuners.benches.engines import NAMES as ENGINES
from advisor.tuners.knobs import KNOBS
from advisor.workloads.workload import EXAMPLE, Workload

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

Found = TypeVar("Found")

WIDTH = 100
GUARD = """if __name__ == "__main__":
    result = advisor.tune(...)"""
WITHOUT_PANDAS = "trials() gives a list of dicts; with pandas (`pip install pandas`) it gives a DataFrame"


class HasData(Protocol):
    """A result of any kind."""

    @property
    def data(self) -> ResultData | ProfileData:
        """All of its result.json."""


class Comparison:
    """Two results side by side. Displays itself; ``data`` is what ``compare --format json`` prints."""

    def __init__(self, data: ComparisonData) -> None:
        self.data = data

    def __repr__(self) -> str:
        found = self.data
        figures = [f"{name}: {a} -> {b}" for name, a, b in compare_page.rows(found)]
        parts = [compare_page.sentence(found), *compare_page.names(found), *figures]
        return "\n".join([*parts, *compare_page.finding_lines(found), *compare_page.notes(found)]) + "\n"

    def _repr_markdown_(self) -> str:
        return compare_page.render_markdown(self.data)


class Result:
    """What ``advisor.tune`` found. Displays itself in a notebook; ``data`` is the whole of result.json."""

    def __init__(self, data: ResultData) -> None:
        self.data = data

    @property
    def recommendation(self) -> Recommendation:
        """The verdict, its changes and their intervals."""
        return self.data.recommendation

    @property
    def findings(self) -> list[Finding]:
        """What the rules said, in report order."""
        return self.data.findings

    def trials(self) -> Any:
        """All trials: a pandas DataFrame where pandas is installed, else a list of dicts and a hint."""
        rows = [trial.model_dump(mode="python", by_alias=True) for trial in self.data.trials]
        try:
            import pandas
        except ImportError:
            print(WITHOUT_PANDAS, file=sys.stderr)
            return rows
        return pandas.json_normalize(rows)

    def save(self, folder: str | Path) -> list[Path]:
        """Write report.html, result.json, report.md and changes.patch into ``folder``.

        Raises:
            UsageError: The folder holds something else.
        """
        from advisor.report.files import write_report

        return write_report(self.data, Path(folder))

    def apply(
        self,
        model: "Module | None" = None,
        loader_kwargs: Mapping[str, Any] | None = None,
        optimizer: "Optimizer | None" = None,
    ) -> Applied:
        """Apply the recommendation to objects of this process, as far as that is possible.

        Args:
            model: Compiled, or its weights laid out otherwise, in place.
            loader_kwargs: Arguments of a DataLoader; a changed copy is returned.
            optimizer: Its groups are edited in place.

        Returns:
            The objects, what to compute the forward in, and what has to be written by hand, with the reason.
        """
        return apply(self.recommendation, model, loader_kwargs, optimizer)

    def compare(self, other: "HasData") -> Comparison:
        """This result beside another of the same program on the same machine: what changed, and how much.

        Args:
            other: A result of ``tune`` or ``profile``; it counts as B.

        Raises:
            UsageError: They cannot be compared; with all reasons (a ValueError).
        """
        return Comparison(compare(Given("this result", self.data), Given("the other", other.data)))

    def __repr__(self) -> str:
        from advisor.report.files import render_text

        return render_text(self.data, WIDTH)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Text, HTML without script, and Markdown, for whatever a front end can show."""
        from advisor.report.files import render_fragment, render_markdown

        return mime_bundle(repr(self), lambda: render_fragment(self.data), lambda: render_markdown(self.data))


def tune(
    workload: Workload | None = None,
    /,
    *,
    budget: str | float = 600.0,
    trials: int | None = None,
    knobs: Mapping[str, list[Value] | None] | None = None,
    fixed: Mapping[str, Value] | None = None,
    out: str | Path | None = None,
    storage: str | None = None,
    study: str | None = None,
    resume: bool = False,
    objective: Objective = "goodput",
    ranks: Sequence[int] = (),
    keep_batch: bool = False,
    allow_training: bool = False,
    min_gain: float = 0.02,
    max_loss: float = 0.01,
    latency_limit: str | float | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    device: str = "auto",
    on: str = "here",
    quiet: bool = False,
    **arguments: Any,
) -> Result:
    """Find out what to change about a training run, and prove it.

    Args:
        workload: A ``Workload``; or give its arguments by name, as factories or as live objects:
            ``tune(model=net, dataset=data, loss=..., optimizer=opt, batch_size=64)``.
        budget: Seconds, or ``"10m"``.
        trials: Trials at most.
        knobs: Knobs to try, with values or ``None``; every knob that applies by default.
        fixed: Settings for baseline and candidates alike.
        out: Folder for the report; none is written by default.
        storage: A storage URL; nothing is kept by default.
        study: Name of the study in the storage.
        resume: Go on with a stored study.
        objective: ``goodput``, ``throughput`` or ``memory``; ``latency`` or ``requests`` of a trained model.
        ranks: Numbers of workers that strategies are tried with; one by default, or what the GPUs allow.
        keep_batch: Leave batch size and learning rate as they are.
        allow_training: Asynchronous, stale, compressed and local updates may be recommended.
        min_gain: Relative gain that must be exceeded.
        max_loss: Relative loss of the metric that a faster form of a trained model may have.
        latency_limit: That a request may take from its arrival on: seconds, or ``"20ms"``.
        confidence: Of all intervals.
        seed: Of the runs and of the sampler.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        on: Where further nodes come from: ``ray`` or ``slurm``; ``here`` for none.
        quiet: No progress on stderr.
        **arguments: Of ``Workload``, when none is given.

    Raises:
        ArgumentError: Something is missing, or cannot be copied to another process (a TypeError).
        UsageError: A value is out of range (a ValueError).
        EnvironmentProblem: There is no such cluster.
        SituationError: Called from another thread or a loader worker (a RuntimeError).
        TargetError: The training fails although nothing was changed (a RuntimeError).
    """
    with warnings.catch_warnings():  # of tqdm, which Optuna imports; no bar of it is ever shown
        warnings.simplefilter("ignore")
        import optuna  # noqa: F401

    from advisor.profiles.facts.machine import read_machine
    from advisor.runs.tune import tune as run
    from advisor.tuners.space.rank_constraints import with_ranks
    from advisor.tuners.trial.workload_transfer import pack

    check_situation("tune")
    if workload is not None:
        arguments = {name: getattr(workload, name) for name in Workload.names()}
    check_arguments("tune", arguments)
    if objective not in get_args(Objective):
        raise UsageError(f"'{objective}' is not one of {', '.join(map(repr, get_args(Objective)))}")
    if on not in (places := ("here", *ENGINES)):
        raise UsageError(f"on='{on}' is not one of {', '.join(map(repr, places))}")
    settings = Settings(
        target=TargetRequest(kind="objects", name=study or "notebook", payload=pack(arguments)),
        out=None if out is None else Path(out),
        storage=storage,
        study=study,
        resume=resume,
        budget_s=parse_duration(budget) if isinstance(budget, str) else float(budget),
        trials=trials,
        objective=objective,
        knobs=_parsed(knobs or {}),
        fixed=with_ranks(fixed or {}, ranks, read_machine()),
        ranks=tuple(ranks),
        keep_batch=keep_batch,
        allow_training=allow_training,
        device=device,
        min_gain=min_gain,
        max_loss=max_loss,
        latency_limit_s=parse_latency(latency_limit) if isinstance(latency_limit, str) else latency_limit,
        confidence=confidence,
        seed=seed,
        on=on,
        command=("tune", IN_PYTHON),
    )
    return Result(called(run, settings, quiet=quiet, kept=storage is not None))


def check_situation(function: str) -> None:
    """Refuse calls that cannot work: from other threads, from loader workers, without the guard of a script.

    Args:
        function: Whose call it is.

    Raises:
        SituationError: Naming which.
    """
    if threading.current_thread() is not threading.main_thread():
        raise SituationError(
            f"{function}() was called from a thread; processes it starts would end with that thread",
            hint="call it from the main thread",
        )
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SituationError(
            f"{function}() was called again by a process that only imports this script", hint=GUARD
        )
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None and not in_notebook():
        raise SituationError(
            f"{function}() was called in a running event loop, which would stand still until it ends",
            hint="call it before asyncio.run(), or after it",
        )
    torch = sys.modules.get("torch")
    if torch is not None and torch.utils.data.get_worker_info() is not None:
        raise SituationError(
            f"{function}() was called inside a DataLoader worker", hint="call it in the main process"
        )


def check_arguments(function: str, arguments: Mapping[str, Any]) -> None:
    """Make sure that arguments are those of a workload, and enough.

    Args:
        function: Whose arguments they are.
        arguments: By name.

    Raises:
        ArgumentError: Some do not exist, or are missing.
        UsageError: The data give no batch, or only once.
    """
    unknown = sorted(arguments.keys() - set(Workload.names()))
    if unknown:
        raise ArgumentError(f"{function}() has no argument {', '.join(unknown)}", hint=EXAMPLE)
    needed = ["model", "dataset", "optimizer"]
    missing = [name for name in needed if arguments.get(name) is None]
    if arguments.get("loss") is None and arguments.get("step") is None:
        missing.append("loss (or step)")
    if missing:
        raise ArgumentError(f"{function}() needs {', '.join(missing)}", hint=EXAMPLE)
    _check_batches(arguments["dataset"], arguments.get("batch_size", Workload.batch_size))


def _check_batches(dataset: Any, batch_size: Any) -> None:
    """Refuse live data that give no batch, or give them once."""
    if isinstance(dataset, Iterator):
        raise UsageError(
            f"dataset is a {type(dataset).__name__}, which is used up after one pass",
            hint="give a Dataset, or a factory: `dataset=lambda: Data()`",
        )
    if callable(dataset) or not hasattr(dataset, "__len__") or not isinstance(batch_size, int):
        return
    if len(dataset) < batch_size:
        raise UsageError(
            f"the dataset has {len(dataset)} items, fewer than one batch of {batch_size}",
            hint="a smaller batch_size",
        )


def _parsed(knobs: Mapping[str, list[Value] | None]) -> dict[str, list[Value] | None]:
    parsed: dict[str, list[Value] | None] = {}
    for name, values in knobs.items():
        if name not in KNOBS:
            raise UsageError(f"unknown knob '{name}'", hint="`advisor knobs` lists them")
        try:
            parsed[name] = None if values is None else [KNOBS[name].parse(str(value)) for value in values]
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
    return parsed


class ProgramTraceback(Exception):
    """The traceback of the program's own exception, as the process that raised it told it."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def called(
    run: Callable[[Settings, Progress], Found], settings: Settings, *, quiet: bool, kept: bool
) -> Found:
    """What a run found that was called from Python, with its progress where the call stands.

    Args:
        run: ``tune`` or ``profile``.
        settings: Its folder for the report is checked before anything starts.
        quiet: Only warnings are shown.
        kept: Whether logs outlive the call.

    Raises:
        UsageError: The folder is not one that a report may be written to.
        TargetError: The program fails; its own exception is the cause.
    """
    if settings.out is not None:
        from advisor.report.folder import check_folder

        check_folder(settings.out)
    try:
        with progress_here(quiet=quiet) as progress:
            return run(settings, progress)
    except TargetError as error:
        failed = as_python(error, kept=kept)
        raise failed from failed.__cause__


def as_python(error: TargetError, *, kept: bool) -> Exception:
    """The exception to raise from Python: the user's own first, as its cause, then what it meant for the run.

    Args:
        error: What the run ended with.
        kept: Whether logs outlive the call.
    """
    wrong = _argument_error(error)
    if wrong is not None:
        return wrong
    if not kept:
        error.hint = None if "log" in (error.hint or "") else error.hint
    if error.trace and error.code == "user_error":
        error.message = f"the baseline step fails: {error.message}"
        error.__cause__ = ProgramTraceback(error.trace)
    return error


def _argument_error(error: TargetError) -> Exception | None:
    """What the user's step returned wrongly, as the kind of exception that fits."""
    if error.message.startswith("TypeError: step must"):
        return ArgumentError(error.message.removeprefix("TypeError: "), where=error.where)
    if error.message.startswith("ValueError: step must"):
        return UsageError(error.message.removeprefix("ValueError: "), where=error.where)
    return None
