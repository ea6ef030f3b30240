"""The tuner's side of a trial of several processes: one session each, commanded and awaited together."""

import math
import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

from advisor.profiles.facts.machine import read_machine
from advisor.tuners.launching.session import (
    STOP_GRACE_S,
    TICK_S,
    Interrupted,
    Session,
    SessionEnded,
    answered,
    as_slot,
)
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import Slot
from advisor.tuners.trial.spec import TrialSpec

Losses = Literal["mean", "first", "last"]

SAME_NORM = 1e-3  # relative, of gradients that were averaged over all ranks
LAST_WORDS_S = 3.0  # after the first rank failed: the others still say why
UNLIMITED_S = 1e9  # of a slot in several ranks: its steps bound it
SECOND_HAND = re.compile(
    r"(?i)connection (was )?(closed|reset|refused)|broken pipe|by peer|timed out waiting|wait timeout|"
    r"application timeout|gloo|nccl|collective|process ?group|store|rendezvous|was lost"
)
"""What a rank says whose partner failed."""
LONE = ("rates", "attention", "probe", "graph")
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
    last: dict[str, Any] = None  # type: ignore[assignment]  # set below
    startup_s: float | None = None
    _outcome: dict[str, Any] | None = None
    _step_s: float | None = None

    def __post_init__(self) -> None:
        self.last = {}

    @property
    def spec(self) -> TrialSpec:
        """Of the first rank."""
        return self.workers[0].spec

    @property
    def folder(self) -> Path:
        """Of the first rank."""
        return self.workers[0].folder

    @property
    def outcome(self) -> dict[str, Any] | None:
        """What the ranks left together, once they have ended."""
        return self._outcome

    @property
    def alive(self) -> bool:
        """Whether it can still run slots."""
        return all(session.alive for session in self._all)

    @property
    def _all(self) -> list[Session]:
        return [*self.workers, *self.servers]

    def first_step(self) -> float:
        """Wait until every worker has closed its first step; the longest of their seconds since the start."""
        limit = self._limit("start")
        messages = self._await("first_step", limit)
        self.startup_s = max(float(message["startup_s"]) for message in messages)
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

    def window(self, steps: int, *, drop: int, limit_s: float = 600.0) -> Slot:
        """Measure ``steps`` after the first ``drop`` of the program, without a pause before."""
        began = self._tell_slots(steps, drop=drop, config=None, keep=("epoch",))
        self.first_step()
        return self._measured(steps + drop, began)

    def facts(self) -> dict[str, Any]:
        """What the first rank's hooks have seen, with every rank's own in ``ranks``."""
        return self.ask("facts", "facts", 60.0)

    def ask(self, command: str, event: str, wait_s: float, **arguments: Any) -> dict[str, Any]:
        """Send a command to every worker and wait for all answers; in ``ranks`` the answer has each one's.

        Those that take steps take equally many on all ranks: seconds asked for become steps. What measures
        the machine or one process is asked of the first rank alone.
        """
        if command in LONE:
            return self.workers[0].ask(command, event, wait_s, **arguments)
        if "seconds" in arguments and self._step_s:
            steps = math.ceil(arguments["seconds"] / self._step_s)
            arguments.update(steps=max(arguments["steps"], steps), seconds=0.0)
        if "limit_s" in arguments and "steps" in arguments:
            if self._step_s:
                arguments["steps"] = max(1, min(arguments["steps"], int(arguments["limit_s"] / self._step_s)))
            arguments.update(limit_s=wait_s, exact=True)
        for number, session in enumerate(self.workers):
            own = dict(arguments)
            if "path" in own and number:
                own["path"] = str(Path(session.spec.folder) / Path(own["path"]).name)
            session.tell(command, **own)
        messages = self._await(event, wait_s)
        if event == "facts":
            for message in messages:
                message["profile"]["machine"].update(_whole_machine())
        return {**messages[0], "ranks": messages}

    def settle(self, present: Mapping[str, int | str]) -> None:
        """Tell every rank the program's own settings."""
        for session in self.workers:
            session.settle(present)

    def stop(self) -> dict[str, Any]:
        """End all ranks now and return their outcome."""
        if self._outcome is None:
            for session in self.workers:
                session.tell("stop")
            try:
                outcomes = self._await("outcome", STOP_GRACE_S)
            except SessionEnded:
                outcomes = [session.outcome or {} for session in self.workers]
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

    def ended(self) -> dict[str, Any] | None:
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
        messages = [answered(message) for message in self._await("slot", self._limit("steps", steps))]
        self.last = merged(messages, self.splits_batch)
        slot = as_slot(self.last)
        self._step_s = slot.mean_s
        return slot

    def _limit(self, phase: str, steps: int = 0) -> float:
        limits = self.workers[0].limits
        return limits.start_s if phase == "start" else limits.for_steps(steps)

    def _await(self, event: str, limit_s: float) -> list[dict[str, Any]]:
        """One message of this name from every worker, in order of ranks."""
        answers: dict[int, dict[str, Any]] = {}
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
                    message = session.look(event, math.inf if serves else limit_s, 0.0)
                except Interrupted:
                    self.kill()
                    raise
                except TrialFailed as failed:
                    self._fail(number, failed.failure, event)
                except SessionEnded as ended:
                    answers[number] = ended.outcome
                    if event != "outcome":
                        self._end(ended, answers)
                    continue
                if message is not None and not serves:
                    answers[number] = message
        return [answers[number] for number in range(len(self.workers))]

    def _end(self, ended: SessionEnded, answers: dict[int, dict[str, Any]]) -> NoReturn:
        """One rank's program came to its end; the others' do too."""
        deadline = time.monotonic() + LAST_WORDS_S
        outcomes = {0: ended.outcome}
        for number, session in enumerate(self.workers):
            while session.alive and time.monotonic() < deadline:
                try:
                    session.look("", math.inf, TICK_S / 5)
                except SessionEnded as other:
                    outcomes[number] = other.outcome
                except TrialFailed:
                    break
        self.kill()
        self._outcome = together([outcomes[number] for number in sorted(outcomes)], self.losses)
        raise SessionEnded(self._outcome) from ended

    def _fail(self, number: int, failure: Failure, event: str) -> NoReturn:
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
                    session.look(event, math.inf, TICK_S / 5)
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
                self._named(rank, replace(failure, cause="hang_collective", message=_hang(failure, stack)))
            )
        raise TrialFailed(failure)

    def _named(self, number: int, failure: Failure) -> Failure:
        rank = self._all[number].spec.place.rank
        who = f"rank {rank}" if number < len(self.workers) else f"server {number - len(self.workers)}"
        return replace(failure, message=f"{who}: {failure.message}")


def second_hand(failure: Failure) -> bool:
    """Whether a rank only says that another one is gone."""
    return failure.cause == "user_error" and bool(SECOND_HAND.search(failure.message))


def last_stack(folder: Path) -> list[str]:
    """Innermost place first: where the main thread of a rank was when it was asked."""
    try:
        text = (folder / "stacks.txt").read_text()
    except OSError:
        return []
    main = text.rpartition("most recent call first")[2]
    return [f"{file}:{line}" for file, line in re.findall(r'File "([^"]+)", line (\d+)', main)]


def _hang(failure: Failure, stack: Sequence[str]) -> str:
    return f"the others waited for it; it was at {stack[0]} ({failure.message})"


def merged(messages: Sequence[Mapping[str, Any]], splits_batch: bool) -> dict[str, Any]:
    """One message of a slot from those of all workers.

    A step lasts as long as the workers together need for one step each: the harmonic mean of theirs, which
    is every one's own where they wait for each other. Samples and CPU time add up; other load is what none
    of them caused. Steps that one worker sets apart are set apart for all.
    """
    first = dict(messages[0])
    if len(messages) == 1:
        return first
    count = min(len(message["wall_ns"]) for message in messages)
    walls = [message["wall_ns"][:count] for message in messages]
    first["wall_ns"] = [
        round(len(step) / sum(1 / max(1, wall) for wall in step)) for step in zip(*walls, strict=True)
    ]
    first["cpu_ns"] = sum(message["cpu_ns"] for message in messages)
    if splits_batch:
        for name in ("loader_samples", "root_samples"):
            first[name] = sum(message[name] for message in messages)
    everyone = min(message["other_cpu_s"] + message["own_cpu_s"] for message in messages)
    own = sum(message["own_cpu_s"] for message in messages)
    first["own_cpu_s"], first["other_cpu_s"] = own, max(0.0, everyone - own)
    first["throttled_s"] = max(message["throttled_s"] for message in messages)
    for message in messages[1:]:
        first["refused"] = {**message["refused"], **first["refused"]}
    first["ranks"] = [
        {"wall_ns": sum(message["wall_ns"]), "phases_ns": message["phases_ns"]} for message in messages
    ]
    return first


def together(outcomes: Sequence[Mapping[str, Any]], losses: Losses) -> dict[str, Any]:
    """One outcome from those of all workers."""
    whole = dict(outcomes[0])
    if len(outcomes) == 1:
        return whole
    if losses == "last":
        whole["losses"] = outcomes[-1]["losses"]
    elif losses == "mean":
        columns = zip(*([float(loss) for loss in outcome["losses"]] for outcome in outcomes), strict=False)
        whole["losses"] = [repr(math.fsum(column) / len(outcomes)) for column in columns]
    norms = [[float(norm) for norm in outcome["grad_norms"]] for outcome in outcomes]
    if not _agree(norms):  # each rank has gradients of its own: parts of the model, or of the batch
        whole["grad_norms"] = []
    whole["peak_bytes"] = sum(outcome["peak_bytes"] for outcome in outcomes)
    devices = [
        outcome["device_peak_bytes"] for outcome in outcomes if outcome["device_peak_bytes"] is not None
    ]
    whole["device_peak_bytes"] = max(devices, default=None)
    for name in ("files", "connections", "processes"):
        whole[name] = sorted({item for outcome in outcomes for item in outcome[name]})
    for outcome in outcomes[1:]:
        whole["refused"] = {**outcome["refused"], **whole["refused"]}
        whole["failure"] = whole["failure"] or outcome["failure"]
    whole["ranks"] = [outcome.get("report", {}) for outcome in outcomes]
    return whole


def _whole_machine() -> dict[str, Any]:
    """What a rank that is bound to its own cores cannot see."""
    machine = read_machine()
    return {"cpus_allowed": machine.cpus_allowed, "numa_nodes": machine.numa_nodes}


def _agree(norms: Sequence[Sequence[float]]) -> bool:
    return all(
        math.isclose(first, other, rel_tol=SAME_NORM)
        for mine in norms[1:]
        for first, other in zip(norms[0], mine, strict=False)
    )


Running = Session | RankGroup
"""A trial that runs, in one process or in several."""

Start = Callable[..., Running]
