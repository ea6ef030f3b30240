"""The tuner's side of one live trial: it says what to measure, keeps deadlines, ends the whole tree."""

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

from advisor.base.fault_points import hit
from advisor.tuners.launching.children import ChildrenLook
from advisor.tuners.launching.owner import Owner
from advisor.tuners.supervision import supervise
from advisor.tuners.supervision.ended import Ended, read_ended
from advisor.tuners.supervision.failures import Failure, TrialFailed, from_exit, line_lost, read_tail
from advisor.tuners.supervision.limits import Limits
from advisor.tuners.trial.channel import Channel, ChannelClosed, NotAMessage
from advisor.tuners.trial.messages import (
    Arrived,
    Facts,
    Failed,
    FirstStep,
    GoOn,
    MeasureSlot,
    Message,
    Phase,
    Present,
    Ready,
    Slot,
    SlotMeasured,
    Stop,
    TellFacts,
    TrialOutcome,
)
from advisor.tuners.trial.spec import TrialSpec

TICK_S = 0.5  # how often a wait looks up; rarer than a core would notice
STOP_GRACE_S = 10.0  # after the outcome is written
FACTS_S = 60.0

Answer = TypeVar("Answer", bound=Message)


class Interrupted(Exception):
    """The user asked to stop; what was measured is kept."""


class SessionEnded(Exception):
    """The program came to its own end before it was told to stop."""

    def __init__(self, outcome: TrialOutcome) -> None:
        super().__init__("the program ended")
        self.outcome = outcome


class Session:
    """One live trial. Every method raises ``TrialFailed`` or ``SessionEnded`` when it is over."""

    def __init__(
        self,
        launcher: Owner,
        spec: TrialSpec,
        folder: Path,
        channel: Channel,
        status: int,
        control: int,
        process: "subprocess.Popen[bytes] | None",
    ) -> None:
        self._launcher = launcher
        self.spec = spec
        self.folder = folder
        self._channel = channel
        self._status = status
        self._control: int | None = control
        self._process = process
        self._phase = "start"
        self._phase_began = time.monotonic()
        self._outcome: TrialOutcome | None = None
        self._ended: Ended | None = None
        self._started = False
        self._asked = False
        self._stopping = False
        self._children = ChildrenLook(folder)
        self.startup_s: float | None = None
        self.start_cpus: float | None = None
        self._waits = spec.waits
        self.last = SlotMeasured()

    @property
    def outcome(self) -> TrialOutcome | None:
        """What the program left, once it has ended."""
        return self._outcome

    @property
    def alive(self) -> bool:
        """Whether it can still run slots."""
        return self._control is not None

    @property
    def limits(self) -> Limits:
        """Deadlines of the launcher that started it."""
        return self._launcher.limits

    @property
    def supervisor(self) -> int | None:
        """Pid of its supervisor where that is a child of this process."""
        return None if self._process is None else self._process.pid

    def ready(self) -> bool:
        """Wait until it waits before its first batch, as told; ``False`` where it made a step without one."""
        return isinstance(self._await(Arrived, self._launcher.limits.start_s), Ready)

    def first_step(self) -> float:
        """Wait until the program has closed its first step; seconds since its start.

        ``start_cpus`` is how many CPUs it used until then, on average; one that waits goes on.
        """
        self._go_on()
        first = self._await(FirstStep, self._launcher.limits.start_s)
        self.startup_s, self.start_cpus = first.startup_s, first.cpu_s / max(first.startup_s, 1e-3)
        return self.startup_s

    def _go_on(self) -> None:
        """Have it load its first batch, if it was to wait before it."""
        if self._waits:
            self._waits = False
            self.tell(GoOn())

    def slot(
        self,
        steps: int,
        *,
        drop: int = 1,
        config: Mapping[str, int | str] | None = None,
        limit_s: float = 60.0,
    ) -> Slot:
        """Run ``drop`` steps unmeasured, then measure ``steps``; ``config`` switches live knobs before.

        After ``limit_s`` seconds the slot ends with the steps it has, at least one. The full message is kept
        in ``last``.

        Raises:
            TrialFailed: Also when a knob asked for is neither applied nor refused (``not_applied``).
        """
        self.tell_slot(steps, drop=drop, config=config, limit_s=limit_s)
        return self._measured(steps + drop)

    def tell_slot(
        self,
        steps: int,
        *,
        drop: int,
        keep: Collection[str] = (),
        config: Mapping[str, int | str] | None = None,
        limit_s: float = 60.0,
        exact: bool = False,
    ) -> None:
        """Have a slot begin; ``SlotMeasured`` ends it.

        Args:
            steps: To be measured.
            drop: Steps before them that are not.
            keep: Flags that do not set a step apart.
            config: Live knobs to switch to before.
            limit_s: Seconds after which it ends with the steps it has.
            exact: Take just so many steps, whatever their flags and kind.
        """
        changed = None if config is None else dict(config)
        self.tell(MeasureSlot(steps, drop, tuple(keep), changed, limit_s, exact))

    def window(
        self,
        steps: int,
        *,
        drop: int,
        config: Mapping[str, int | str] | None = None,
        limit_s: float = 600.0,
    ) -> Slot:
        """Measure ``steps`` after the first ``drop`` steps of the program, without a pause before.

        Must be the first call: a program that pauses gives its loader workers time to run ahead. Unless
        ``config`` switches loaders, which begin with nothing prepared: then it may come at any time.
        Steps in which an epoch starts are measured like others; those with an evaluation or a save count
        among ``steps``, though they are set apart: a program that ends soon has no others.
        """
        self._go_on()
        self.tell_slot(steps, drop=drop, keep=["epoch"], config=config, limit_s=limit_s, exact=True)
        if self.startup_s is None:
            self.first_step()
        return self._measured(steps + drop)

    def _measured(self, steps: int) -> Slot:
        self.last = answered(self._await(SlotMeasured, self._launcher.limits.for_steps(steps)))
        return self.last.slot

    def facts(self) -> Facts:
        """Everything the hooks have seen so far."""
        return self.ask(TellFacts(), Facts, FACTS_S)

    def ask(self, command: Message, answer: type[Answer], wait_s: float) -> Answer:
        """Send a command and wait for its answer.

        Args:
            command: What to do.
            answer: What answers it.
            wait_s: Seconds until the trial counts as stuck.
        """
        self.tell(command)
        return self._await(answer, wait_s)

    def tell(self, command: Message) -> None:
        """Send a command without waiting for its answer."""
        try:
            self._channel.send(command)
        except ChannelClosed:
            self._fail_without_outcome()

    def settle(self, present: Mapping[str, int | str]) -> None:
        """Tell the child the program's own settings, observed in its first run."""
        self.tell(Present(dict(present)))

    def stop(self) -> TrialOutcome:
        """End the program now and return its outcome."""
        if self._outcome is None:
            self._stopping = True
            hit("outcome.read.before")
            try:
                self.ask(Stop(), TrialOutcome, STOP_GRACE_S)
            except SessionEnded as ended:
                self._outcome = ended.outcome
            hit("outcome.read.after")
        self._close()
        assert self._outcome is not None  # _await keeps it or raises
        return self._outcome

    def kill(self) -> None:
        """End the whole tree without an outcome."""
        self._asked = True
        self._close()

    def ended(self) -> Ended | None:
        """How the process ended, as the supervisor saw it; ``None`` before that is known."""
        return self._ended

    def _await(self, answer: type[Answer], limit_s: float) -> Answer:
        self.expect()
        while (message := self.look(answer, limit_s, TICK_S)) is None:
            pass
        return message

    def expect(self) -> None:
        """A wait begins now."""
        self._phase_began = time.monotonic()

    def fileno(self) -> int:
        """The descriptor on which messages come, for ``select``."""
        return self._channel.fileno()

    def look(self, answer: type[Answer] | None, limit_s: float, tick_s: float) -> Answer | None:
        """Take one message, waiting up to ``tick_s`` seconds for it; returned if it is the one awaited.

        Args:
            answer: The message awaited; ``None`` for none.
            limit_s: Seconds since ``expect`` after which the trial counts as stuck.
            tick_s: Seconds until ``None`` is returned.
        """
        try:
            message = self._channel.receive(tick_s)
        except NotAMessage as error:
            self._close()
            raise TrialFailed(Failure("internal", f"the trial: {error}")) from None
        except ChannelClosed:
            self._fail_without_outcome()
        if message is None and self._supervisor_ended():
            self._fail_without_outcome()
        if message is None:
            waited = time.monotonic() - self._phase_began
            try:
                self._launcher.waiting(self._phase, waited)
                if answer in (Arrived, FirstStep):
                    self._children.look(time.monotonic())
            except (Interrupted, TrialFailed):
                self.kill()
                raise
            if waited > (self._launcher.limits.compile_s if self._phase == "compile" else limit_s):
                self.time_out()
            return None
        if isinstance(message, Phase):
            self._enter_phase(message)
        elif isinstance(message, Failed):
            self._close()
            raise TrialFailed(message.failure)
        elif isinstance(message, TrialOutcome):
            self._outcome = message
            if answer is None or message.failure is not None or not isinstance(message, answer):
                self._over(message)
            return message
        elif answer is not None and isinstance(message, answer):
            self._phase = "steps"
            return message
        return None

    def _over(self, outcome: TrialOutcome) -> NoReturn:
        self._close()
        if outcome.failure is not None:
            raise TrialFailed(outcome.failure)
        raise SessionEnded(outcome)

    def time_out(self) -> NoReturn:
        """End it as stuck, with a stack of every process.

        Raises:
            TrialFailed: Always.
        """
        waited = time.monotonic() - self._phase_began
        self._close(with_stacks=True)
        raise TrialFailed(Failure("timeout", f"no answer for {waited:.0f} s in phase {self._phase}"))

    def _enter_phase(self, phase: Phase) -> None:
        self._phase, self._phase_began = phase.name, time.monotonic()
        if phase.session is not None:  # the first one: what follows is the target's
            self._started = True
            self._launcher.adoption.sessions.add(phase.session)

    def _supervisor_ended(self) -> bool:
        """Whether nothing more can come, though descendants of the trial may still hold the channel."""
        return bool(select.select([self._status], [], [], 0)[0]) and not self._pending()

    def _pending(self) -> bool:
        return bool(select.select([self._channel], [], [], 0)[0])

    def _fail_without_outcome(self) -> NoReturn:
        failure = self._last_words()
        self._close()
        left = TrialOutcome.read(self.folder / "outcome.json")
        if left is not None and left.failure is not None:
            failure = left.failure
        elif left is not None and (
            self._stopping or left.state == "ended"
        ):  # only its last words are missing
            self._outcome = left
            raise SessionEnded(left)
        if failure is None:
            failure = self._from_outside(left is None and (self.folder / "outcome.json").exists())
        raise TrialFailed(failure)

    def _from_outside(self, unreadable: bool) -> Failure:
        """What is known of a trial that told nothing; ``unreadable``: its outcome is there and no outcome."""
        if unreadable and not self._asked:
            return Failure("internal", "its outcome.json cannot be read")
        line = read_tail(self.folder / "stderr.log")
        if self.spec.host and not self._asked:
            return line_lost(self.spec.host)
        return from_exit(self._ended, line, started=self._started, asked=self._asked)

    def _last_words(self) -> Failure | None:
        """What the trial still said before it ended; a failure of ours if there was one."""
        with contextlib.suppress(ChannelClosed):
            while (message := self._channel.receive(0)) is not None:
                if isinstance(message, Phase):
                    self._enter_phase(message)
                elif isinstance(message, Failed):
                    return message.failure
        return None

    def _close(self, *, with_stacks: bool = False) -> None:
        """Have the supervisor end what is left, and wait until it says so."""
        if self._control is None:
            return
        if with_stacks:
            with contextlib.suppress(BrokenPipeError):  # the supervisor itself was killed
                os.write(self._control, b"kill\n")
        elif self._outcome is None:
            os.close(self._control)
        self._ended = read_ended(self._status, supervise.LONGEST_END_S)
        if with_stacks or self._outcome is not None:
            os.close(self._control)
        self._control = None
        os.close(self._status)
        self._channel.close()
        if self._process is not None:
            if self._ended is None:  # it hangs, or is dead already
                self._process.kill()
            self._process.wait()
        self._launcher.forget(self)
        if self._ended is None:
            self._launcher.end_orphans()
        elif self._ended.stuck:
            self._launcher.stuck(self._ended.stuck)


def answered(message: SlotMeasured) -> SlotMeasured:
    """The message of a slot, if every knob asked for was applied or refused.

    Raises:
        TrialFailed: One was neither (``not_applied``).
    """
    if message.unanswered:
        names = ", ".join(message.unanswered)
        raise TrialFailed(Failure("not_applied", f"neither applied nor refused: {names}"))
    return message
