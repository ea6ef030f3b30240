"""``advisor.profile``: a loop of one's own in this process, or a workload in another, by its arguments."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from advisor.base.durations import parse_duration
from advisor.base.errors import ArgumentError
from advisor.base.settings import Settings, TargetRequest
from advisor.notebook.tune import called, check_arguments, check_situation
from advisor.result.document import IN_PYTHON
from advisor.workloads.workload import Workload

if TYPE_CHECKING:
    from advisor.report.profile_result import ProfileResult
    from advisor.runs.in_process import LoopProfile

STEPS, WARMUP = 20, 3  # of a loop, where nothing is said
BUDGET_S = 120.0


@overload
def profile(*, steps: int = ..., wait: int = ..., warmup: int = ...) -> "LoopProfile": ...


@overload
def profile(
    workload: Workload,
    /,
    *,
    steps: int | None = ...,
    warmup: int | None = ...,
    budget: str | float = ...,
    out: str | Path | None = ...,
    seed: int = ...,
    device: str = ...,
    quiet: bool = ...,
) -> "ProfileResult": ...


@overload
def profile(
    *,
    model: Any,
    dataset: Any,
    optimizer: Any,
    steps: int | None = ...,
    warmup: int | None = ...,
    budget: str | float = ...,
    out: str | Path | None = ...,
    seed: int = ...,
    device: str = ...,
    quiet: bool = ...,
    **arguments: Any,
) -> "ProfileResult": ...


def profile(
    workload: Workload | None = None,
    /,
    *,
    steps: int | None = None,
    wait: int | None = None,
    warmup: int | None = None,
    **options: Any,
) -> "LoopProfile | ProfileResult":
    """Find out what is slow in a training run, where, and how much it could give.

    Around a loop of one's own, in this process. ``p.step()`` says that a training step is over; nothing is
    printed; ``p.result`` shows itself::

        with advisor.profile(steps=20) as p:
            for batch in loader:
                train(batch)
                p.step()
        p.result

    On factories or live objects, as ``advisor.tune`` takes them; copies of them are trained in another
    process, what is given stays as it is::

        advisor.profile(model=net, dataset=data, loss=..., optimizer=opt, batch_size=64)

    Args:
        workload: A ``Workload``; or give its arguments by name, as factories or as live objects.
        steps: Of a loop: steps to profile, 20 by default; the loop runs on unwatched when they are full. Of a
            workload: clean steps to watch at least.
        wait: Steps of a loop that pass before the warm-up, none by default.
        warmup: Steps that pass before the profiled ones; 3 by default in a loop, as many as it takes in
            a workload.
        **options: Arguments of ``Workload`` when none is given, and for either form of it

            - ``budget``: seconds, or ``"2m"``, the default;
            - ``out``: folder for the report; none is written by default;
            - ``seed``: of the run;
            - ``device``: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``;
            - ``quiet``: no progress on stderr.

    Returns:
        For a loop what is to stand in ``with``; for a workload the result.

    Raises:
        ArgumentError: Something is missing, or cannot be copied to another process (a TypeError).
        UsageError: A value is out of range (a ValueError).
        SituationError: Called from another thread or a loader worker (a RuntimeError).
        TargetError: The training fails (a RuntimeError).
    """
    if workload is None and not options:
        from advisor.runs.in_process import LoopProfile

        return LoopProfile(
            steps=STEPS if steps is None else steps,
            wait=0 if wait is None else wait,
            warmup=WARMUP if warmup is None else warmup,
        )
    if wait is not None:
        raise ArgumentError("wait belongs to a loop of your own", hint="use warmup for a workload")
    return _of_workload(workload, steps, warmup, **options)


def _of_workload(
    workload: Workload | None,
    steps: int | None,
    warmup: int | None,
    *,
    budget: str | float = BUDGET_S,
    out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = False,
    **arguments: Any,
) -> "ProfileResult":
    from advisor.report.profile_result import ProfileResult
    from advisor.runs.profile import profile as run
    from advisor.tuners.trial.workload_transfer import pack

    check_situation("profile")
    if workload is not None:
        if arguments:
            raise ArgumentError(
                f"profile() takes a workload or its arguments, not both: {', '.join(arguments)}"
            )
        arguments = {name: getattr(workload, name) for name in Workload.names()}
    check_arguments("profile", arguments)
    settings = Settings(
        target=TargetRequest(kind="objects", name="notebook", payload=pack(arguments)),
        out=None if out is None else Path(out),
        budget_s=parse_duration(budget) if isinstance(budget, str) else float(budget),
        device=device,
        steps=steps,
        warmup=warmup,
        seed=seed,
        command=("profile", IN_PYTHON),
    )
    return ProfileResult(called(run, settings, quiet=quiet, kept=False))
