"""The runs of the numerics gate in one process that runs already: from one kept state, on the same batches.

Before anything is compared the process has to prove that its loop repeats itself: the program as it is, run
twice from the kept state, has to make the same steps with the same losses, and all that was kept has to come
back. A loop that holds a batch ahead does so from its second run on, so it gets a third. One that takes its
batches from no loader goes on to the next of them, which the first loss of a run tells. Steps in which an
epoch begins, something is saved, or only now and then evaluated, are no part of that; the window is tried
once more then, since the loop has moved on.

Another seed stands for other random numbers and another order of the batches; the weights stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.tuners.comparing.gate import SEEDS, Learning, Reference
from advisor.tuners.comparing.roundings import CLOSE, Growth, relative_each
from advisor.tuners.knob import AnyKnob, Value
from advisor.tuners.launching.rank_group import RankGroup, Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.numerics.numerics_messages import (
    KeepState,
    Relearn,
    Relearned,
    ReleaseState,
    StateKept,
)

PROOFS = 3  # runs of the program as it is, of which two in a row must agree
OUTSIDE = frozenset({"epoch", "save"})  # flags of steps that are no part of a window
NOW_AND_THEN = "evaluation"  # a flag that all steps of a window have, or none
SAME_BATCH = 1e-4  # relative, of the first loss: no update has gone into it, so no rounding has grown


class CannotRepeat(Exception):
    """Numbers cannot be compared in this process; the message is the reason."""


@dataclass
class SameProcess:
    """Runs the same few steps again and again in one process.

    Attributes:
        session: Paused at a step border. It is not ended here.
        base: The configuration of the program as it is.
        steps: Of each run.
        host_bytes: What the kept state takes.
    """

    session: Running
    base: Mapping[str, Value]
    steps: int
    host_bytes: int = 0
    _proven: Relearned | None = None

    def reference(self) -> Reference:
        """Keep the state, and prove that it is enough: two runs of the program as it is.

        Raises:
            CannotRepeat: It is not enough, or cannot be kept.
            TrialFailed: The program failed.
        """
        if isinstance(self.session, RankGroup):
            raise CannotRepeat("several ranks would have to keep their state together")
        self._keep()
        first, again = self._repeated()
        self._proven = again
        if not first.losses:
            raise CannotRepeat("the program computes no scalar loss that could be seen")
        return Reference(first.losses, again.losses, (), norms=(first.grad_norms, again.grad_norms))

    def with_other_seeds(self, reference: Reference) -> Reference:
        """The same runs, and those from other seeds: what is equal to the last digit needs none.

        Raises:
            CannotRepeat: The window could not be repeated.
            TrialFailed: The program failed.
        """
        others = [self._run(self.base, seed=seed) for seed in SEEDS]
        losses, norms = (tuple(run.losses for run in others), tuple(run.grad_norms for run in others))
        return replace(reference, seeds=losses, norms=(*reference.norms, *norms))

    def learn(self, config: Mapping[str, Value]) -> Learning:
        """The steps under a configuration that this process can switch to.

        Raises:
            CannotRepeat: The window could not be repeated under it.
            TrialFailed: The program failed, or a knob was neither applied nor refused.
        """
        run = self._run(config)
        if run.unanswered:
            told = f"neither applied nor refused: {', '.join(run.unanswered)}"
            raise TrialFailed(Failure("not_applied", told))
        return Learning(run.losses, run.peak_bytes, grad_norms=run.grad_norms, refused=run.refused)

    def still_repeats(self) -> bool:
        """Whether the program as it is makes the same steps as at first: its loop has moved on since."""
        try:
            return self._proven is not None and self._difference(self._proven, self._run(self.base)) is None
        except (CannotRepeat, TrialFailed):
            return False

    def nudged(self, number: int) -> tuple[float, ...]:
        """Losses of the program as it is from nudged weights.

        Raises:
            TrialFailed: The window could not be repeated.
        """
        try:
            return self._run(self.base, nudge=number).losses
        except CannotRepeat as reason:
            raise TrialFailed(Failure("user_error", str(reason))) from reason

    def release(self) -> None:
        """Let the program go on from the kept state."""
        if not isinstance(self.session, RankGroup) and self.session.alive and self.host_bytes:
            self.session.tell(ReleaseState())
            self.host_bytes = 0

    def _keep(self) -> None:
        try:
            kept = self.session.ask(KeepState(dict(self.base), self.steps), StateKept, self._limit_s)
        except SessionEnded as end:
            raise CannotRepeat("the program ended") from end
        if kept.problem is not None:
            raise CannotRepeat(kept.problem)
        self.host_bytes = kept.host_bytes

    def _repeated(self) -> tuple[Relearned, Relearned]:
        """Two runs of the program as it is, one after the other, that agree."""
        before = self._run(self.base)
        for _ in range(PROOFS - 1):
            run = self._run(self.base)
            problem = self._difference(before, run)
            if problem is None:
                return before, run
            before = run
        raise CannotRepeat(f"the loop does not repeat itself: {problem}")

    def _difference(self, first: Relearned, second: Relearned) -> str | None:
        """How two runs of the same part from each other; ``None`` by no more than roundings can grow."""
        if first.marks != second.marks or first.flags != second.flags:
            return "run twice from one state, it made other steps, or at other learning rates"
        apart = relative_each(first.losses, second.losses)
        if len(first.losses) != len(second.losses) or not all(each < float("inf") for each in apart):
            return "run twice from one state, it gave other losses"
        if max(apart, default=0.0) <= CLOSE:
            return None
        if apart[0] > SAME_BATCH:  # a run from nudged weights had yet another batch, and tells nothing
            told = f"its first loss differs by {apart[0]:.1g}, before any update"
            return f"run twice from one state, {told}: by its batch, or by what it carries from step to step"
        growth = Growth(first.losses, len(apart))
        growth.add(self._run(self.base, nudge=1).losses)
        beyond = growth.beyond(apart)
        return None if beyond is None else f"run twice from one state, its losses differ, {beyond}"

    def _run(self, config: Mapping[str, Value], *, seed: int = 0, nudge: int = 0) -> Relearned:
        """The steps from the kept state, in a window that can be compared."""
        command = Relearn(dict(config), dict(self.base), self.steps, seed, nudge)
        for _ in range(2):
            try:
                run = self.session.ask(command, Relearned, self._limit_s)
            except SessionEnded as end:
                raise CannotRepeat("the program ended") from end
            if run.problem is not None:
                raise CannotRepeat(run.problem)
            problem = _interrupted(run.flags)
            if problem is None:
                return run
        raise CannotRepeat(problem or "")

    @property
    def _limit_s(self) -> float:
        """Seconds after which a run counts as stuck."""
        assert not isinstance(self.session, RankGroup)
        return self.session.limits.for_steps(self.steps + 1) + self.session.limits.compile_s


def switchable(knobs: Mapping[str, AnyKnob], base: Mapping[str, Value], config: Mapping[str, Value]) -> bool:
    """Whether a process that runs ``base`` can go over to ``config`` between two steps."""
    changed = [name for name in config if config[name] != base.get(name)]
    return all(name in knobs and knobs[name].live for name in changed)


def _interrupted(flags: tuple[tuple[str, ...], ...]) -> str | None:
    """What in these steps is no part of a window; ``None`` if they are one."""
    seen = {flag for each in flags for flag in each}
    outside = sorted(OUTSIDE & seen)
    if outside:
        return f"within so few steps there is also: {', '.join(outside)}"
    evaluations = sum(NOW_AND_THEN in each for each in flags)
    return None if evaluations in (0, len(flags)) else "it evaluates within so few steps"
