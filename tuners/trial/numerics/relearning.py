"""Steps of the user's own loop, repeated from one state on the same batches: for comparing numbers.

At a step border the state is kept (``kept_state.py``) and batches are recorded; each run of a few steps
starts from that state, and brings it back at its last border. The loop itself goes on through all of them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Step
from advisor.profiles.hooks.surroundings.memory import free_host_bytes, peak_bytes
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.trial.messages import Message
from advisor.tuners.trial.numerics.kept_state import InPlace, KeptState, NotKept
from advisor.tuners.trial.numerics.nudge import Nudge
from advisor.tuners.trial.numerics.numerics_messages import (
    KeepState,
    Relearn,
    Relearned,
    ReleaseState,
    StateKept,
)
from advisor.tuners.trial.pending_graph import has_pending_graph
from advisor.tuners.trial.tasks import Task

if TYPE_CHECKING:
    from torch.nn import Module

SPARE = 1.2  # times the memory needed, that must be free
BATCHES_SHARE = 0.1  # of free memory, that recorded batches may take
LOOKS = 3  # steps at most, until one does not end an epoch
COMPILE = "compile"  # a flag: what a change costs, nothing that the loop does


class Relearning:
    """Carries out what the tuner asks of the kept state."""

    def __init__(self, run: Run, watch: Callable[[], Watch]) -> None:
        self._run = run
        self._watch = watch
        self.state: KeptState | None = None

    def carry_out(self, command: KeepState | Relearn | ReleaseState) -> Task | None:
        """Begin, at a step border; the task that takes the next steps, if there is one."""
        match command:
            case KeepState():
                return Keeping(self, self._run, self._watch(), command)
            case Relearn():
                assert self.state is not None, "nothing is kept"
                return Repeating(self.state, self._run, self._watch(), command)
            case ReleaseState():
                self.state = None
                self._watch().batches.release()
        return None


class Keeping:
    """Makes a step and keeps what is there after it."""

    def __init__(self, owner: Relearning, run: Run, watch: Watch, command: KeepState) -> None:
        self._owner = owner
        self._run = run
        self._watch = watch
        self._command = command
        self._made = 0

    def begin(self) -> None:
        """Look at what the step changes, and record what comes after its batches."""
        self._run.configure(self._command.config)
        self._watch.follow()
        self._before = InPlace()
        self._record()

    def take(self, step: Step) -> bool:
        """Whether there is something to repeat now."""
        self._made += 1
        if self._fed and not self._watch.batches.count and self._made < LOOKS:
            self._record()
            return False
        return True

    def finish(self) -> Message:
        """Keep the state, if there is room for it."""
        batches = self._watch.batches
        try:
            state = self._kept()
        except NotKept as reason:
            batches.release()
            return StateKept(str(reason))
        self._owner.state = state
        return StateKept(None, state.bytes, batches.count)

    def _record(self) -> None:
        most = int(BATCHES_SHARE * free_host_bytes())
        self._fed = self._watch.batches.record(self._command.steps, most)

    def _kept(self) -> KeptState:
        if self._fed and not self._watch.batches.count:
            raise NotKept("its loader gave no batch that could be recorded")
        if has_pending_graph():
            raise NotKept("where its steps end, a backward is still to come")
        state = KeptState(self._before.changed())
        free = free_host_bytes()
        if SPARE * state.bytes > free:
            needed, room = (value / 2**20 for value in (SPARE * state.bytes, free))
            raise NotKept(f"keeping its state needs {needed:.0f} MiB of memory, and {room:.0f} MiB are free")
        state.copy()
        return state


class Repeating:
    """Makes a few steps from the kept state."""

    def __init__(self, state: KeptState, run: Run, watch: Watch, command: Relearn) -> None:
        self._state = state
        self._run = run
        self._watch = watch
        self._command = command
        self._marks: list[str] = []
        self._flags: list[tuple[str, ...]] = []

    def begin(self) -> None:
        """Switch to what is to be run; the state is as it was kept."""
        command, watch = self._command, self._watch
        self._run.configure(command.config)
        watch.follow()
        if command.seed:
            self._state.reseed(command.seed)
        if command.nudge:
            knob = Nudge()
            for root in _outermost(watch.models()):
                knob.model(root, command.nudge)
        if watch.batches.count:
            watch.batches.replay(command.seed)
        watch.begin_record(command.steps)

    def take(self, step: Step) -> bool:
        """Note what the step was."""
        rates = [
            float(group.get("lr", 0.0)) for each in self._watch.optimizers() for group in each.param_groups
        ]
        self._marks.append(f"{step.kind} {step.sequence} {step.backwards} {rates}")
        self._flags.append(tuple(sorted(step.flags - {COMPILE})))
        return len(self._marks) >= self._command.steps

    def finish(self) -> Message:
        """Read what was recorded, then bring everything back."""
        losses, norms = self._watch.end_record()
        refused, unanswered = dict(self._run.refused), tuple(self._run.unanswered())
        self._run.configure(self._command.base)
        self._watch.follow()
        problem = "; ".join(f"{name} cannot be taken back: {why}" for name, why in self._run.refused.items())
        try:
            self._state.restore()
        except (NotKept, RuntimeError) as reason:
            problem = str(reason)
        return Relearned(
            tuple(losses),
            tuple(norms),
            tuple(self._marks),
            tuple(self._flags),
            problem or None,
            refused,
            unanswered,
            max(0, peak_bytes() - self._state.bytes - self._watch.batches.bytes),
        )


def _outermost(roots: "list[Module]") -> "list[Module]":
    inner = {id(member) for root in roots for member in root.modules() if member is not root}
    return [root for root in roots if id(root) not in inner]
