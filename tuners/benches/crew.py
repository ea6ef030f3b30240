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
from advisor.tuners.benches.like_nodes import unlike
from advisor.tuners.benches.messages import Answer, Asked, NotMeasured, NotOpened, Opened, Teach, question
from advisor.tuners.benches.remote import RemoteBench
from advisor.tuners.supervision.failures import Failure, TrialFailed, is_disruption

T = TypeVar("T")
TICK_S = 0.05  # that one bench is listened to while all are waited for
HERE = "here"  # the node of the bench in this process, where no engine says how it is called
FEW = 2  # benches, of which none is left to what it alone is asked, or is likely to be
LATELY = 0.25  # of what the last measurement took, that others may have begun before what is asked ahead
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


@dataclass
class Begun(Generic[T]):
    """Tasks that were handed to a crew, by key; where those wait that nobody has begun with, and our own."""

    tasks: dict[int, Task[T]]
    queue: deque[int]
    own: deque[int] = field(default_factory=deque)


@dataclass(frozen=True)
class _Pending:
    """What was asked and not answered; ``alone`` of one node only."""

    said: Asked
    alone: bool = False


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
        absent: Why no bench could be opened, by node.
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
    absent: dict[str, str] = field(default_factory=dict)
    _asked: dict[int, _Pending] = field(default_factory=dict)
    _queue: deque[int] = field(default_factory=deque)
    _kept_for: dict[str, deque[int]] = field(default_factory=dict)  # what one node alone is asked
    _ahead: dict[str, int] = field(default_factory=dict)  # what was asked ahead and nobody wanted yet
    _spare: deque[int] = field(default_factory=deque)  # of it what nobody has begun with
    _answers: dict[int, tuple[str, Answer]] = field(default_factory=dict)
    _at: dict[int, str] = field(default_factory=dict)
    _next_key: int = 0
    _begun_at: float = -math.inf  # when the last was begun that was not asked ahead
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

    def run(
        self, tasks: Sequence[Task[T]], then: Callable[[int, Came[T]], Task[T] | None] | None = None
    ) -> list[Came[T]]:
        """Measure all tasks on all benches, and give what came of each, by its place.

        Args:
            tasks: What is to be measured.
            then: Is told what came of each, by its place, and says what is to be measured in addition; that
                has the next place.

        Raises:
            Interrupted: By ``waiting``, or by what this process measures.
        """
        return self.finish(self.begin(tasks, here=True), then)

    def begin(self, tasks: Sequence[Task[T]], node: str | None = None, *, here: bool = False) -> "Begun[T]":
        """Have other benches begin with tasks; what this process does meanwhile is its own.

        Args:
            tasks: What is to be measured.
            node: The only other one that is asked, when nothing else is to be done there. What is lost with
                it is done in this process.
            here: This process is free: where others could do all of them, the first one is left to it.
        """
        begun = Begun[T]({}, self._queue if node is None else deque())
        if node is not None and node in self.nodes[1:]:
            begun.queue = self._kept_for.setdefault(node, begun.queue)
        for task in tasks:
            self._add(begun, task)
        ours = next((key for key in self._queue if key in begun.tasks), None)
        free = here and all(task.asked is not None for task in tasks)
        if free and ours is not None and len(self._queue) <= sum(bench.idle for bench in self.used):
            self._queue.remove(ours)
            begun.own.append(ours)
        self._begun_at = self.clock()
        self._send()
        return begun

    def _add(self, begun: "Begun[T]", task: Task[T]) -> None:
        """One more task; what was asked ahead in the same words is it."""
        key, self._next_key = self._next_key, self._next_key + 1
        alone = begun.queue is not self._queue
        if task.asked is not None:
            said = task.asked(key)
            before = None if alone else self._ahead.pop(question(said), None)
            if before is None:
                self._asked[key] = _Pending(said, alone)
                begun.queue.append(key)
            else:
                key = before
                if key in self._spare:
                    self._spare.remove(key)
                    begun.queue.append(key)
        begun.tasks[key] = task

    def ahead(self, asked: Sequence[Callable[[int], Asked]], *, first: bool = False) -> list[int]:
        """Have other benches measure what is likely to be wanted, once they have nothing else to do.

        A task that asks the same later has what came of it. This process does none of it. Nothing is begun
        before the next tasks are, and nothing where there is only one other bench.

        Args:
            asked: As of a task; the likeliest first.
            first: They come before all that was asked ahead.

        Returns:
            What ``forget`` takes.
        """
        keys: list[int] = []
        for each in asked if self.size > FEW else ():
            key, self._next_key = self._next_key, self._next_key + 1
            if (same := question(said := each(key))) not in self._ahead:
                self._asked[key], self._ahead[same] = _Pending(said), key
                keys.append(key)
        self._spare = deque([*keys, *self._spare] if first else [*self._spare, *keys])
        return keys

    def forget(self, keys: Sequence[int]) -> None:
        """Do not begin any more with these, of what was asked ahead."""
        for key in keys:
            if key in self._spare:
                self._spare.remove(key)
                self._no_more(key)

    def _no_more(self, key: int) -> None:
        """What was asked ahead is not going to be known."""
        del self._ahead[question(self._asked.pop(key).said)]

    def finish(
        self,
        begun: "Begun[T]",
        then: Callable[[int, Came[T]], Task[T] | None] | None = None,
        until: float = math.inf,
    ) -> list[Came[T]]:
        """Do what is left of tasks, and give what came of each, by its place. ``then`` is as of ``run``.

        Others are waited for ``until`` that time of the clock; what they have not answered by then comes
        without a value.

        Raises:
            Interrupted: As of ``run``.
        """
        tasks, came = begun.tasks, dict[int, Came[T]]()
        own = begun.own
        own.extend(key for key, task in tasks.items() if task.asked is None)

        def keep(key: int, result: Came[T]) -> None:
            came[key] = result
            more = None if then is None else then(list(tasks).index(key), result)
            if more is not None:
                self._add(begun, more)
                self._send()

        try:
            while len(came) < len(tasks):
                if (key := self._for_here(own, tasks)) is not None:
                    self._asked.pop(key, None)
                    self._begun_at = self.clock()
                    self._send()
                    keep(key, self._here(tasks[key]))
                elif self.clock() >= until:
                    break
                else:
                    self._wait(tasks, until)
                for done in [each for each in self._answers if each in tasks]:
                    node, answer = self._answers.pop(done)
                    result = self._took(tasks[done], node, answer)
                    if result is None:
                        self.elsewhere[node] += 1
                        own.append(done)
                    else:
                        keep(done, result)
        finally:
            self.drop(begun)
        return [came.get(key) or Came("") for key in tasks]

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

    def _wait(self, tasks: Mapping[int, Task[T]], until: float) -> None:
        """Until something came of these tasks, which others measure, or that time of the clock."""
        began = self.clock()
        while self._at and not tasks.keys() & self._answers.keys() and not tasks.keys() & set(self._queue):
            if self.clock() >= until:
                break
            busy = [each for each in self.used if each.key is not None]
            for bench in busy:
                self._hear(bench, TICK_S if bench is busy[0] else 0.0)
            self._send()
            self.waiting("benches", self.clock() - began)
        self.waited_s += self.clock() - began

    def _send(self) -> None:
        """Give those that are idle what is to be done."""
        for bench in self.used:
            if bench.idle and (queue := self._next_for(bench)):
                key = queue.popleft()
                if queue is not self._spare:
                    self._begun_at = self.clock()
                self._at[key] = bench.node
                with self._losses_told(bench, key):
                    bench.ask(key, self._asked[key].said)

    def _next_for(self, bench: RemoteBench) -> deque[int]:
        """What a bench takes from: of several others one is left to what it alone is asked.

        Towards the end of what is measured nothing is begun ahead: what comes next would have to wait for it.
        """
        kept = self._kept_for.get(bench.node, deque())
        first, second = (self._queue, kept) if self.size <= FEW else (kept, self._queue)
        spare = self._spare if self.clock() - self._begun_at <= LATELY * bench.usual_s else deque[int]()
        return first or second or spare

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
                if key in self._ahead.values():
                    self._no_more(key)
                elif key in self._asked:
                    self.elsewhere[bench.node] += 1
                    if not self._asked[key].alone:
                        self._queue.appendleft(key)
            self._leave_out(bench, f"lost: {lost}")

    def _leave_out(self, bench: RemoteBench, why: str) -> None:
        bench.leave_out(why)
        self._kept_for.pop(bench.node, None)
        self.say(f"the bench on {bench.node} is left out: {bench.left_out}")
