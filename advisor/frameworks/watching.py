"""What the callbacks of all frameworks share: one ``advisor.profile`` per training."""

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.base.errors import AdvisorError, SituationError

if TYPE_CHECKING:
    from advisor.report.profile_result import ProfileResult
    from advisor.runs.in_process import LoopProfile


class Watching:
    """Profiles the steps of one training after another, as a framework's callback tells of them.

    A profile that cannot be made never ends a training: the reason is a warning, and is raised by ``result``.

    Args:
        steps: Steps to profile.
        wait: Steps that pass before the warm-up.
        warmup: Steps that pass before the profiled ones.
        out: Folder for the report; none is written by default.

    Raises:
        UsageError: A number is out of range (a ValueError).
    """

    def __init__(self, *, steps: int, wait: int, warmup: int, out: str | Path | None) -> None:
        self._numbers = {"steps": steps, "wait": wait, "warmup": warmup}
        self._out = out
        self._problem: AdvisorError | None = None
        self._done: LoopProfile | None = None
        self._open: LoopProfile | None = None
        self._made()

    def begin(self) -> None:
        """A training begins; one before that never ended is given up."""
        self.end(SituationError("the training before it did not end"))
        self._done = self._problem = None
        try:
            self._open = self._made()
            self._open.__enter__()
        except AdvisorError as problem:
            self._open = None
            self._give_up(problem)

    def step(self) -> None:
        """A batch was trained on."""
        if self._open is not None:
            self._open.step()

    def end(self, error: BaseException | None = None, *, writes: bool = True) -> None:
        """The training is over, or ``error`` ended it; everything that was watched is as before.

        Args:
            error: What ended it.
            writes: Whether this process writes the report, where several train together.
        """
        profile, self._open = self._open, None
        if profile is None:
            return
        try:
            profile.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
            if error is None:
                self._done = profile
                if self._out is not None and writes:
                    profile.result.save(self._out)
        except AdvisorError as problem:
            self._give_up(problem)

    @property
    def result(self) -> "ProfileResult":
        """What was found in the last training.

        Raises:
            AdvisorError: Nothing was profiled; why not.
        """
        if self._problem is not None:
            raise self._problem
        profile = self._done or self._open
        if profile is None:
            raise SituationError("nothing was profiled", hint="train with this callback first")
        return profile.result

    def _made(self) -> "LoopProfile":
        from advisor.notebook.profile import profile

        return profile(**self._numbers)

    def _give_up(self, problem: AdvisorError) -> None:
        self._problem = problem
        warnings.warn(f"no profile was made: {problem.message}", stacklevel=sys.getrecursionlimit())


class Profiled:
    """The part of a callback that every framework's has: its numbers, and ``result``.

    Stands before the framework's own class among the bases, whose ``__init__`` takes nothing.
    """

    def __init__(
        self, *, steps: int = 20, wait: int = 0, warmup: int = 3, out: str | Path | None = None
    ) -> None:
        super().__init__()
        self._watching = Watching(steps=steps, wait=wait, warmup=warmup, out=out)

    @property
    def result(self) -> "ProfileResult":
        """What was found in the last training.

        Raises:
            AdvisorError: Nothing was profiled; why not.
        """
        return self._watching.result
