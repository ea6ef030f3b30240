"""The benches of a run: the one in this process, and those on other nodes; what is asked of all at once.

Results are told apart by their place in what was asked, never by who was done first. What was lost with a
bench is measured by another one, in the end by the one in this process.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from advisor.tuners.benches.engine import BenchLost
from advisor.tuners.benches.messages import Answer, Asked, NotMeasured, NotOpened, Opened, Teach
from advisor.tuners.benches.remote import RemoteBench
from advisor.tuners.supervision.failures import Failure, TrialFailed, is_disruption

T = TypeVar("T")
TICK_S = 0.05  # that one bench is listened to while all are waited for
HERE = "here"  # the node of the bench in this process, where no engine says how it is called
DEVIATES = 0.15  # log ratio of a step's time, beside noise, from which a like node is left out
# Like GPUs of one cluster differ by 8 % on average, the worst by 22 % (Sinha et al., SC 2022).
SPREADS = 4.0  # of both baselines, that a deviation must exceed as well
NODE_CAUSES = ("environment", "internal", "disk_full", "shm_full")  # which tell of a node, not of a program


@dataclass(frozen=True)
class Task(Generic[T]):
    """One thing to measure, on any bench.

    Attributes:
        here: Measures it in this process.
        asked: What another bench is asked, by the key of its answer; ``None`` where only this process can.
        took: What its answer means.
    """

    here: Callable[[], T]
    asked: Callable[[int], Asked] | None
    took: Callable[[Answer], T]


@dataclass(frozen=True)
class Came(Generic[T]):
    """What came of a task, on which node; its value, or how it failed with the answer that said so."""

    node: str
    value: T | None = None
    failure: Failure | None = None
    told: NotMeasured | None = None


@dataclass(frozen=True)
class Begun(Generic[T]):
    """Tasks that were handed to a crew, by key."""

    tasks: dict[int, Task[T]]


@dataclass
class Crew:
    """All benches of a run. Without others it does everything in this process, in order.

    Attributes:
        others: On other nodes.
        clock: Seconds, monotonic.
        waiting: Is told how long something is waited for; may raise to stop.
        say: Is told of a bench that is lost or left out.
        node: How the node of this process is called.
        ran: Measurements of this process that counted in tasks.
        busy_s: Seconds that this process measured in them.
        waited_s: Seconds that it waited for others.
        elsewhere: Of tasks that were measured anew after a loss, by the node that was lost.
    """

    clock: Callable[[], float]
    waiting: Callable[[str, float], None] = lambda what, seconds: None
    say: Callable[[str], None] = lambda text: None
    others: list[RemoteBench] = field(default_factory=list)
    node: str = HERE
    ran: int = 0
    busy_s: float = 0.0
    waited_s: float = 0.0
    elsewhere: Counter[str] = field(default_factory=Counter)
    _asked: dict[int, Asked] = field(default_factory=dict)
    _queue: deque[int] = field(default_factory=deque)
    _kept_for: dict[str, deque[int]] = field(default_factory=dict)  # what one node alone is asked
    _kept: set[int] = field(default_factory=set)  # all that ever was in there
    _answers: dict[int, tuple[str, Answer]] = field(default_factory=dict)
    _at: dict[int, str] = field(default_factory=dict)
    _next_key: int = 0
    _listening: bool = False

    @property
    def used(self) -> list[RemoteBench]:
        """Those that can be asked something."""
        return [each for each in self.others if not each.left_out and each.opened is not None]

    @property
    def size(self) -> int:
        """Benches in use, this process among them."""
        return 1 + len(self.used)

    @property
    def nodes(self) -> list[str]:
        """Of those in use, this process's first."""
        return [self.node, *(each.node for each in self.used)]

    def join(self, like: Opened, teach: Teach, *, limit_s: float) -> None:
        """Wait until each bench has run the program, leave out those that are not like ours, teach the rest.

        Args:
            like: What this process's bench says of itself.
            teach: What holds for all.
            limit_s: After which those that have not are left out.
        """
        began = self.clock()
        while missing := [each for each in self.others if not each.left_out and each.opened is None]:
            for bench in missing:
                with self._losses_told(bench):
                    said = bench.hear(TICK_S if bench is missing[0] else 0.0)
                    if isinstance(said, NotOpened):
                        self._leave_out(bench, f"the program does not run there: {said.why}")
                    elif isinstance(said, Opened):
                        bench.opened = said
                        if why := unlike(like, said):
                            self._leave_out(bench, why)
            waited = self.clock() - began
            self.waiting("benches", waited)
            if waited > limit_s:
                for bench in missing:
                    if bench.opened is None and not bench.left_out:
                        self._leave_out(bench, f"the program had not run there within {limit_s:.0f} s")
        self.waited_s += self.clock() - began
        for bench in self.used:
            with self._losses_told(bench):
                bench.say(teach)

    def run(self, tasks: Sequence[Task[T]]) -> list[Came[T]]:
        """Measure all tasks on all benches, and give what came of each, by its place.

        Raises:
            Interrupted: By ``waiting``, or by what this process measures.
        """
        return self.finish(self.begin(tasks))

    def begin(self, tasks: Sequence[Task[T]], node: str | None = None) -> "Begun[T]":
        """Have other benches begin with tasks; what this process does meanwhile is its own.

        Args:
            tasks: What is to be measured.
            node: The only other one that is asked, when nothing else is to be done there. What is lost with
                it is done in this process.
        """
        first, self._next_key = self._next_key, self._next_key + len(tasks)
        begun = Begun({key: task for key, task in enumerate(tasks, first)})
        queue = self._queue if node is None else deque[int]()
        if node is not None and node in self.nodes[1:]:
            queue = self._kept_for.setdefault(node, queue)
        for key, task in begun.tasks.items():
            if task.asked is not None:
                self._asked[key] = task.asked(key)
                queue.append(key)
        self._kept.update(begun.tasks if node is not None else ())
        self._send()
        return begun

    def finish(self, begun: "Begun[T]") -> list[Came[T]]:
        """Do what is left of tasks, and give what came of each, by its place.

        Raises:
            Interrupted: As of ``run``.
        """
        tasks, came = begun.tasks, dict[int, Came[T]]()
        own = deque(key for key, task in tasks.items() if task.asked is None)
        try:
            while len(came) < len(tasks):
                if (key := self._for_here(own, tasks)) is not None:
                    self._asked.pop(key, None)
                    self._send()
                    came[key] = self._here(tasks[key])
                else:
                    self._wait(tasks)
                for done in [each for each in self._answers if each in tasks]:
                    node, answer = self._answers.pop(done)
                    result = self._took(tasks[done], node, answer)
                    if result is None:
                        self.elsewhere[node] += 1
                        own.append(done)
                    else:
                        came[done] = result
        finally:
            self.drop(begun)
        return [came[key] for key in sorted(came)]

    def drop(self, begun: "Begun[T]") -> None:
        """Want nothing more of tasks; what comes of those that are being measured is not heard."""
        for key in begun.tasks:
            self._asked.pop(key, None)
            self._answers.pop(key, None)
            for queue in (self._queue, *self._kept_for.values()):
                if key in queue:
                    queue.remove(key)

    def listen(self) -> None:
        """Take what has come and send what is to be done; called while this process waits for its own."""
        if self._listening or not self._at:
            return
        self._listening = True
        try:
            for bench in self.used:
                self._hear(bench, 0.0)
            self._send()
        finally:
            self._listening = False

    def close(self) -> None:
        """End all."""
        for bench in self.others:
            bench.close()

    def _here(self, task: Task[T]) -> Came[T]:
        began = self.clock()
        try:
            return Came(self.node, task.here())
        except TrialFailed as failed:
            return Came(self.node, failure=failed.failure)
        finally:
            self.ran += 1
            self.busy_s += self.clock() - began

    def _took(self, task: Task[T], node: str, answer: Answer) -> Came[T] | None:
        """What an answer means; ``None`` where it tells of the node, and another one has to do it."""
        if not isinstance(answer, NotMeasured):
            return Came(node, task.took(answer))
        if is_disruption(answer.failure) or answer.failure.cause in NODE_CAUSES:
            return None
        return Came(node, failure=answer.failure, told=answer)

    def _for_here(self, own: deque[int], tasks: Mapping[int, Task[T]]) -> int | None:
        """The next of these tasks that this process does; ``None`` where others have the rest."""
        if own:
            return own.popleft()
        key = next((each for each in self._queue if each in tasks), None)
        if key is not None:
            self._queue.remove(key)
            return key
        # one that was kept for a node which is gone
        gone = (key for key in tasks if key in self._asked and not self._is_with_others(key))
        return next(gone, None)

    def _is_with_others(self, key: int) -> bool:
        """Whether another bench measures it, has measured it, or is going to."""
        waits = any(key in queue for queue in self._kept_for.values())
        return key in self._at or key in self._answers or waits

    def _wait(self, tasks: Mapping[int, Task[T]]) -> None:
        """Until something came of these tasks, which others measure."""
        began = self.clock()
        while self._at and not tasks.keys() & self._answers.keys() and not tasks.keys() & set(self._queue):
            busy = [each for each in self.used if each.key is not None]
            for bench in busy:
                self._hear(bench, TICK_S if bench is busy[0] else 0.0)
            self._send()
            self.waiting("benches", self.clock() - began)
        self.waited_s += self.clock() - began

    def _send(self) -> None:
        """Give those that are idle what is to be done."""
        for bench in self.used:
            if bench.idle and (queue := self._queue or self._kept_for.get(bench.node)):
                key = queue.popleft()
                self._at[key] = bench.node
                with self._losses_told(bench, key):
                    bench.ask(key, self._asked[key])

    def _hear(self, bench: RemoteBench, timeout_s: float) -> None:
        if (key := bench.key) is None:
            return
        with self._losses_told(bench, key):
            said = bench.hear(timeout_s)
            if said is not None and not isinstance(said, Opened | NotOpened):
                self._at.pop(key, None)
                if self._asked.pop(key, None) is not None:
                    self._answers[key] = bench.node, said

    @contextmanager
    def _losses_told(self, bench: RemoteBench, key: int | None = None) -> Iterator[None]:
        """Go on without a bench that is lost; what it had to do is the next that is done."""
        try:
            yield
        except BenchLost as lost:
            if key is not None:
                self._at.pop(key, None)
                if key in self._asked:
                    self.elsewhere[bench.node] += 1
                    if key not in self._kept:
                        self._queue.appendleft(key)
            self._leave_out(bench, f"lost: {lost}")

    def _leave_out(self, bench: RemoteBench, why: str) -> None:
        bench.leave_out(why)
        self._kept_for.pop(bench.node, None)
        self.say(f"the bench on {bench.node} is left out: {bench.left_out}")


def unlike(like: Opened, other: Opened) -> str:
    """Why a bench may not stand beside another one; empty where it may.

    Args:
        like: What the bench of the tuner says of itself.
        other: What the other one says.
    """
    if other.fingerprint != like.fingerprint:
        return f"another kind of node ({other.described}; this one: {like.described})"
    if other.python != like.python:
        return f"another Python ({other.python}; here {like.python})"
    if other.digest != like.digest:
        return "the program there is not the same as here"
    apart = math.log(other.step_s / like.step_s)
    if abs(apart) > max(DEVIATES, SPREADS * math.hypot(like.sigma, other.sigma)):
        told = "slower" if apart > 0 else "faster"
        return f"its unchanged program is {math.exp(abs(apart)):.2f} times {told} than here"
    return ""
