"""The tuner's side of a trial of several processes: one session each, commanded and awaited together."""

import dataclasses
import math
import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, cast

from msgspec.structs import replace

from advisor.tuners.launching.rank_answers import Losses, merged, on_whole_machine, together
from advisor.tuners.launching.session import (
    FACTS_S,
    STOP_GRACE_S,
    TICK_S,
    Answer,
    Interrupted,
    Session,
    SessionEnded,
    answered,
)
from advisor.tuners.launching.stacks import last_stack
from advisor.tuners.supervision.ended import Ended
from advisor.tuners.supervision.failures import Failure, OutOfTime, TrialFailed
from advisor.tuners.trial.look_messages import (
    Inspect,
    MeasureRates,
    Observe,
    Probe,
    Record,
    Recorded,
    TimeAttention,
    TimeGraph,
)
from advisor.tuners.trial.messages import (
    Facts,
    FirstStep,
    Message,
    Slot,
    SlotMeasured,
    Stop,
    TellFacts,
    TrialOutcome,
)
from advisor.tuners.trial.spec import TrialSpec

LAST_WORDS_S = 3.0  # after the first rank failed: the others still say why
UNLIMITED_S = 1e9  # of a slot in several ranks: its steps bound it
SECOND_HAND = re.compile(
    r"(?i)connection (was )?(closed|reset|refused)|broken pipe|by peer|timed out waiting|wait timeout|"
    r"application timeout|gloo|nccl|collective|process ?group|store|rendezvous|was lost"
)
"""What a rank says whose partner failed."""
LONE = (MeasureRates, TimeAttention, Probe, TimeGraph)
WAITING = ("/torch/", "threading.py", "selectors.py", "links.py", "socket.py")
"""Places at which a rank waits for others."""


@dataclass
class RankGroup:
    """One trial of several ranks, with the methods of a `Session`.

    Messages are those of the first rank, with times, samples and loads of all of them; ``ranks`` in a message
    holds every worker's own.

    Attributes:
        workers: Sessions of the ranks that train, in order.
        servers: Sessions of those that serve them.
        losses: Whose loss is that of the whole batch.
        splits_batch: Each worker has its own samples, rather than all of them the same.
    """

    workers: Sequence[Session]
    servers: Sequence[Session] = ()
    losses: Losses = "mean"
    splits_batch: bool = True
    last: SlotMeasured = field(default_factory=SlotMeasured)
    startup_s: float | None = None
    start_cpus: float | None = None  # of all ranks together: not known
    _outcome: TrialOutcome | None = None
    _step_s: float | None = None

    @property
    def spec(self) -> TrialSpec:
        """Of the first rank."""
        return self.workers[0].spec

    @property
    def folder(self) -> Path:
        """Of the first rank."""
        return self.workers[0].folder

    @property
    def outcome(self) -> TrialOutcome | None:
        """What the ranks left together, once they have ended."""
        return self._outcome

    @property
    def alive(self) -> bool:
        """Whether it can still run slots."""
        return all(session.alive for session in self._all)

    @property
    def _all(self) -> list[Session]:
        return [*self.workers, *self.servers]

    def ready(self) -> bool:
        """Ranks wait for each other, and for nobody else: none is told to wait before it loads."""
        return False

    def first_step(self) -> float:
        """Wait until every worker has closed its first step; the longest of their seconds since the start."""
        limit = self._limit("start")
        self.startup_s = max(message.startup_s for message in self._await(FirstStep, limit))
        return self.startup_s

    def slot(
        self,
        steps: int,
        *,
        drop: int = 1,
        config: Mapping[str, int | str] | None = None,
        limit_s: float = 60.0,
    ) -> Slot:
        """Run ``drop`` steps unmeasured, then measure ``steps``, in all ranks.

        Fewer are measured where that many would take longer than ``limit_s`` seconds.
        """
        if self._step_s:
            steps = max(1, min(steps, int(limit_s / self._step_s)))
        return self._slot(steps, drop=drop, config=config, keep=())

    def window(
        self,
        steps: int,
        *,
        drop: int,
        config: Mapping[str, int | str] | None = None,
        limit_s: float = 600.0,
    ) -> Slot:
        """Measure ``steps`` after the first ``drop`` of the program, or after loaders were switched."""
        began = self._tell_slots(steps, drop=drop, config=config, keep=("epoch",))
        if self.startup_s is None:
            self.first_step()
        return self._measured(steps + drop, began)

    def facts(self) -> Facts:
        """What the first rank's hooks have seen, with every rank's own in ``ranks``."""
        return self.ask(TellFacts(), Facts, FACTS_S)

    def ask(self, command: Message, answer: type[Answer], wait_s: float) -> Answer:
        """Send a command to every worker and await all answers; ``ranks`` of facts and recordings has each.

        Those that take steps take equally many on all ranks: seconds asked for become steps. What measures
        the machine or one process is asked of the first rank alone.
        """
        if isinstance(command, LONE):
            return self.workers[0].ask(command, answer, wait_s)
        if isinstance(command, Observe | Inspect):
            sampled = {"sampled": self._sampled(command)} if isinstance(command, Inspect) else {}
            command = replace(command, steps=self._steps(command), limit_s=wait_s, exact=True, **sampled)
        for number, session in enumerate(self.workers):
            if isinstance(command, Record) and number:
                command = replace(command, path=str(Path(session.spec.folder) / Path(command.path).name))
            session.tell(command)
        messages = tuple(self._await(answer, wait_s))
        if answer is Facts:
            facts = tuple(on_whole_machine(cast(Facts, message)) for message in messages)
            return cast(Answer, replace(facts[0], ranks=facts))
        if answer is Recorded:  # traces of other machines stay there
            here = [each for each, of in zip(messages, self.workers, strict=True) if not of.spec.host]
            return cast(Answer, replace(cast(Recorded, messages[0]), ranks=tuple(here)))
        return messages[0]

    def _steps(self, command: Observe | Inspect) -> int:
        """Steps that fit the seconds asked for, as far as it is known how long one takes."""
        steps = command.steps
        if self._step_s:
            if isinstance(command, Observe):
                steps = max(steps, math.ceil(command.seconds / self._step_s))
            steps = max(1, min(steps, int(command.limit_s / self._step_s)))
        return steps

    def _sampled(self, command: Inspect) -> int:
        """Steps in which hot lines alone are met; ranks that take equally many have no clock to end them."""
        if not self._step_s:
            return 0
        return min(command.sampled, int(command.limit_s / 2 / self._step_s))

    def settle(self, present: Mapping[str, int | str]) -> None:
        """Tell every rank the program's own settings."""
        for session in self.workers:
            session.settle(present)

    def stop(self) -> TrialOutcome:
        """End all ranks now and return their outcome."""
        if self._outcome is None:
            for session in self.workers:
                session.tell(Stop())
            outcomes = self._await(TrialOutcome, STOP_GRACE_S)
            for session in self.workers:
                session.stop()
            self._outcome = together(outcomes, self.losses)
        for server in self.servers:
            server.kill()
        return self._outcome

    def kill(self) -> None:
        """End every rank without an outcome."""
        for session in self._all:
            session.kill()

    def ended(self) -> Ended | None:
        """How the first rank ended."""
        return self.workers[0].ended()

    def _slot(
        self, steps: int, *, drop: int, config: Mapping[str, int | str] | None, keep: tuple[str, ...]
    ) -> Slot:
        return self._measured(steps + drop, self._tell_slots(steps, drop=drop, config=config, keep=keep))

    def _tell_slots(
        self, steps: int, *, drop: int, config: Mapping[str, int | str] | None, keep: tuple[str, ...]
    ) -> float:
        for session in self.workers:
            session.tell_slot(steps, drop=drop, keep=keep, config=config, limit_s=UNLIMITED_S, exact=True)
        return time.monotonic()

    def _measured(self, steps: int, began: float) -> Slot:
        messages = [answered(message) for message in self._await(SlotMeasured, self._limit("steps", steps))]
        hosts = [session.spec.host for session in self.workers]
        self.last = merged(messages, self.splits_batch, hosts)
        slot = self.last.slot
        self._step_s = slot.mean_s
        return slot

    def _limit(self, phase: str, steps: int = 0) -> float:
        limits = self.workers[0].limits
        return limits.start_s if phase == "start" else limits.for_steps(steps)

    def _await(self, answer: type[Answer], limit_s: float) -> list[Answer]:
        """One message of this kind from every worker, in order of ranks."""
        answers: dict[int, Answer] = {}
        for session in self._all:
            session.expect()
        while len(answers) < len(self.workers):
            waiting = [
                (number, session) for number, session in enumerate(self._all)
                if number not in answers and session.alive
            ]  # fmt: skip
            ready = set(select.select([session for _, session in waiting], [], [], TICK_S)[0])
            for number, session in waiting:
                if ready and session not in ready:
                    continue
                serves = number >= len(self.workers)
                try:
                    message = session.look(answer, math.inf if serves else limit_s, 0.0)
                except (Interrupted, OutOfTime):
                    self.kill()
                    raise
                except TrialFailed as failed:
                    self._fail(number, failed.failure)
                except SessionEnded as ended:
                    if answer is not TrialOutcome:
                        self._end(ended)
                    answers[number] = cast(Answer, ended.outcome)
                    continue
                if message is not None and not serves:
                    answers[number] = message
        return [answers[number] for number in range(len(self.workers))]

    def _end(self, ended: SessionEnded) -> NoReturn:
        """One rank's program came to its end; the others' do too."""
        deadline = time.monotonic() + LAST_WORDS_S
        outcomes = {0: ended.outcome}
        for number, session in enumerate(self.workers):
            while session.alive and time.monotonic() < deadline:
                try:
                    session.look(None, math.inf, TICK_S / 5)
                except SessionEnded as other:
                    outcomes[number] = other.outcome
                except TrialFailed:
                    break
        self.kill()
        self._outcome = together([outcomes[number] for number in sorted(outcomes)], self.losses)
        raise SessionEnded(self._outcome) from ended

    def _fail(self, number: int, failure: Failure) -> NoReturn:
        """A rank failed: find out which one was at fault, and end all of them."""
        failures = {number: failure}
        if failure.cause == "timeout":
            self._time_out(number, failure)
        deadline = time.monotonic() + LAST_WORDS_S
        while time.monotonic() < deadline and second_hand(failures[number]):
            living = [(n, session) for n, session in enumerate(self._all) if session.alive]
            if not living:
                break
            for other, session in living:
                try:
                    session.look(None, math.inf, TICK_S / 5)
                except TrialFailed as failed:
                    failures[other] = failed.failure
                except SessionEnded:
                    continue
                if other in failures and not second_hand(failures[other]):
                    number = other
                    break
        self.kill()
        raise TrialFailed(self._named(number, failures[number])) from None

    def _time_out(self, number: int, failure: Failure) -> NoReturn:
        """No answer in time: the rank that is not waiting for the others is at fault."""
        stacks = {number: last_stack(self._all[number].folder)}
        for other, session in enumerate(self._all):
            if session.alive:
                with suppress(TrialFailed, SessionEnded):
                    session.time_out()
                stacks[other] = last_stack(session.folder)
        self.kill()
        busy = [
            (rank, stack) for rank, stack in sorted(stacks.items())
            if rank < len(self.workers) and stack and not any(place in stack[0] for place in WAITING)
        ]  # fmt: skip
        if len(busy) == 1 and len(self.workers) > 1:
            rank, stack = busy[0]
            raise TrialFailed(
                self._named(
                    rank, dataclasses.replace(failure, cause="hang_collective", message=_hang(failure, stack))
                )
            )
        raise TrialFailed(failure)

    def _named(self, number: int, failure: Failure) -> Failure:
        rank = self._all[number].spec.place.rank
        who = f"rank {rank}" if number < len(self.workers) else f"server {number - len(self.workers)}"
        return dataclasses.replace(failure, message=f"{who}: {failure.message}")


def second_hand(failure: Failure) -> bool:
    """Whether a rank only says that another one is gone."""
    return failure.cause == "user_error" and bool(SECOND_HAND.search(failure.message))


def _hang(failure: Failure, stack: Sequence[str]) -> str:
    return f"the others waited for it; it was at {stack[0]} ({failure.message})"


Running = Session | RankGroup
"""A trial that runs, in one process or in several."""

Start = Callable[..., Running]


def end(session: Running) -> None:
    """End a process in its own way if it can: its outcome says which files and connections it used."""
    try:
        if session.alive:
            session.stop()
    except (TrialFailed, SessionEnded):
        session.kill()
