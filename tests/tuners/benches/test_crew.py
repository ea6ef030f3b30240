"""Several benches at work: who does what, what counts, and what becomes of what a lost one had to do."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from advisor.tuners.benches.crew import Came, Crew, Task
from advisor.tuners.benches.engine import BenchLost
from advisor.tuners.benches.like_nodes import unlike
from advisor.tuners.benches.messages import (
    Answer,
    NotMeasured,
    Opened,
    Ping,
    Pong,
    Removed,
    RunRemoval,
    Said,
    Teach,
    understood,
    written,
)
from advisor.tuners.benches.remote import SILENT_S, RemoteBench
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.supervision.failures import Failure, TrialFailed

LIKE = Opened("f", "a machine", "3.11", "sha256:1", 1.0, 0.01, 2.0)
ANY_TIME = 100.0


@dataclass
class PaperLine:
    """A bench that answers with what ``does`` says, ``takes_s`` later."""

    node: str
    does: Callable[[Said], Said | None]
    now: list[float]
    takes_s: float = 1.0
    ready: list[tuple[float, str]] = field(default_factory=list)
    heard: list[Said] = field(default_factory=list)
    closed: bool = False

    def send(self, line: str) -> None:
        said = understood(line)
        self.heard.append(said)
        answer = self.does(said)
        if answer is not None:
            self.ready.append((self.now[0] + self.takes_s, written(answer)))

    def receive(self, timeout_s: float) -> str | None:
        if self.ready and self.ready[0][0] <= self.now[0] + timeout_s:
            at, line = self.ready.pop(0)
            self.now[0] = max(self.now[0], at)
            return line
        self.now[0] += timeout_s
        return None

    def close(self) -> None:
        self.closed = True


def removed(said: Said) -> Said | None:
    """Answers a question by its number."""
    if isinstance(said, RunRemoval):
        return Removed(said.key, 1.0, Estimate(float(said.number), 0.0, 1.0, 0.9, 1, 1))
    return Pong() if isinstance(said, Ping) else None


def failing(cause: str) -> Callable[[Said], Said | None]:
    def does(said: Said) -> Said | None:
        if isinstance(said, RunRemoval):
            return NotMeasured(said.key, 1.0, Failure(cause, "so it was"))  # type: ignore[arg-type]
        return None

    return does


def crew_of(*does: Callable[[Said], Said | None], takes_s: float = 1.0) -> tuple[Crew, list[PaperLine]]:
    now = [0.0]
    lines = [PaperLine(f"n{place}", each, now, takes_s) for place, each in enumerate(does)]
    crew = Crew(lambda: now[0], others=[RemoteBench(line, lambda: now[0]) for line in lines])
    for bench in crew.others:
        bench.opened = LIKE
    return crew, lines


def task(number: int, done_here: list[int], only_here: bool = False) -> Task[float]:
    def here() -> float:
        done_here.append(number)
        return float(number)

    def asked(key: int) -> RunRemoval:
        return RunRemoval(key, number, {"a": number}, {"a": -1}, 0.01, 0.99, ANY_TIME)

    def took(answer: Answer) -> float:
        assert isinstance(answer, Removed)
        return answer.estimate.estimate

    return Task(here, None if only_here else asked, took)


def test_without_others_everything_is_done_here_in_order() -> None:
    crew, done = Crew(lambda: 0.0), list[int]()
    assert [each.value for each in crew.run([task(n, done) for n in range(3)])] == [0.0, 1.0, 2.0]
    assert done == [0, 1, 2] and crew.size == 1


def test_results_stand_at_their_places_whoever_was_done_first() -> None:
    crew, lines = crew_of(removed, removed)
    lines[0].takes_s = 5.0
    done: list[int] = []
    came = crew.run([task(n, done) for n in range(6)])
    assert [each.value for each in came] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert {each.node for each in came} == {"here", "n0", "n1"}
    assert crew.ran == len(done) and crew.ran + sum(each.ran for each in crew.others) == 6


def test_what_only_this_process_can_do_is_not_sent() -> None:
    crew, _ = crew_of(removed)
    done: list[int] = []
    came = crew.run([task(0, done, only_here=True), task(1, done), task(2, done, only_here=True)])
    assert [each.node for each in came] == ["here", "n0", "here"] and done == [0, 2]


def test_one_is_left_to_this_process_where_others_could_do_all() -> None:
    crew, lines = crew_of(removed, removed)
    ahead(crew, 7)
    done: list[int] = []
    assert [each.node for each in crew.run([task(0, done), task(1, done)])] == ["here", "n0"]
    assert asked_at(lines[1]) == [7], "it has time for what is asked ahead"


def test_others_are_waited_for_until_a_time_and_no_longer() -> None:
    crew, lines = crew_of(removed, takes_s=ANY_TIME)
    begun = crew.begin([task(0, []), task(1, [])])
    came = crew.finish(begun, until=30.0)
    assert [(each.node, each.value) for each in came] == [("", None), ("here", 1.0)]
    assert 30.0 <= lines[0].now[0] < ANY_TIME
    later = crew.run([task(2, [])])
    assert [each.value for each in later] == [2.0], "what came too late is not taken for something else"


@pytest.mark.parametrize("cause", ["killed", "interference", "environment", "disk_full"])
def test_what_tells_of_a_node_is_measured_by_another(cause: str) -> None:
    crew, _ = crew_of(failing(cause))
    done: list[int] = []
    came = crew.run([task(n, done) for n in range(2)])
    assert [(each.node, each.value) for each in came] == [("here", 0.0), ("here", 1.0)]
    assert crew.elsewhere["n0"] == 1


def test_what_tells_of_the_program_counts_wherever_it_failed() -> None:
    crew, _ = crew_of(failing("user_error"))
    came = crew.run([task(n, []) for n in range(2)])
    assert came[0].failure == Failure("user_error", "so it was") and came[0].node == "n0"

    def fails() -> float:
        raise TrialFailed(Failure("oom_host", "no memory"))

    (alone,) = Crew(lambda: 0.0).run([Task(fails, None, lambda answer: 0.0)])
    assert alone.failure is not None and alone.failure.cause == "oom_host"


def test_others_begin_while_this_process_does_something_of_its_own() -> None:
    crew, (line,) = crew_of(removed)
    done: list[int] = []
    begun = crew.begin([task(n, done) for n in range(3)])
    line.now[0] += 1.5  # the first is answered meanwhile
    crew.listen()
    line.now[0] += 1.5
    came = crew.finish(begun)
    assert [each.value for each in came] == [0.0, 1.0, 2.0]
    assert [each.node for each in came] == ["n0", "n0", "here"] and done == [2]


def test_what_is_wanted_no_more_is_not_heard() -> None:
    crew, (line,) = crew_of(removed)
    done: list[int] = []
    crew.drop(crew.begin([task(n, done) for n in range(3)]))
    came = crew.run([task(n, done) for n in range(3, 5)])
    assert [each.value for each in came] == [3.0, 4.0]
    asked = [each.number for each in line.heard if isinstance(each, RunRemoval)]
    assert asked[0] == 0 and set(asked[1:]) <= {3, 4}, "what was queued is gone"


def test_one_that_falls_silent_is_lost_after_it_was_asked_whether_it_is_there() -> None:
    said: list[str] = []
    crew, (line,) = crew_of(lambda said: None)
    crew.say = said.append
    done: list[int] = []
    came = crew.run([task(n, done) for n in range(2)])
    assert [each.value for each in came] == [0.0, 1.0] and sorted(done) == [0, 1]
    assert any(isinstance(each, Ping) for each in line.heard) and line.closed
    assert SILENT_S <= crew.clock() < SILENT_S + 2 and "nothing was heard of it" in said[0]
    assert crew.size == 1


def test_one_that_only_answers_pings_is_busy_and_not_lost() -> None:
    crew, (line,) = crew_of(removed, takes_s=SILENT_S * 3)
    line.does = lambda said: removed(said)

    def receive(timeout_s: float) -> str | None:
        if isinstance(line.heard[-1], Ping):
            line.heard.append(Pong())
            return written(Pong())
        return PaperLine.receive(line, timeout_s)

    line.receive = receive  # type: ignore[method-assign]
    came = crew.run([task(n, []) for n in range(2)])
    assert came[0].node == "n0" and crew.clock() >= SILENT_S * 3


@pytest.mark.parametrize("answer", ["{}", "what?", written(Removed(99, 1.0, Estimate(0, 0, 0, 0.9, 1, 1)))])
def test_one_that_speaks_otherwise_is_lost(answer: str) -> None:
    crew, (line,) = crew_of(lambda said: None)
    line.ready.append((0.0, answer))
    came = crew.run([task(n, []) for n in range(2)])
    assert [each.node for each in came] == ["here", "here"] and crew.others[0].left_out


def test_a_line_that_cannot_be_written_to_loses_the_bench_and_nothing_else() -> None:
    crew, (line,) = crew_of(removed)

    def send(text: str) -> None:
        raise BenchLost("killed by signal 9")

    line.send = send  # type: ignore[method-assign, assignment]
    came = crew.run([task(n, []) for n in range(3)])
    assert [each.value for each in came] == [0.0, 1.0, 2.0] and {each.node for each in came} == {"here"}


def test_those_that_are_not_open_in_time_are_left_out_and_the_others_taught() -> None:
    crew, lines = crew_of(removed, removed)
    for bench in crew.others:
        bench.opened = None
    lines[0].ready.append((3.0, written(LIKE)))
    teach = Teach({"a": 1}, (), None, 0.01)
    crew.join(LIKE, teach, limit_s=10.0)
    assert crew.nodes == ["here", "n0"] and lines[0].heard == [teach]
    assert "within 10 s" in crew.others[1].left_out and crew.waited_s >= 10


def test_nodes_of_another_kind_are_told_apart() -> None:
    def other(**values: object) -> str:
        fields = {name: getattr(LIKE, name) for name in LIKE.__struct_fields__}
        return unlike(LIKE, Opened(**{**fields, **values}))

    assert other() == other(step_s=1.1) == other(step_s=0.9) == ""
    assert "another kind of node" in other(fingerprint="g")
    assert "another Python" in other(python="3.12")
    assert "not the same" in other(digest="sha256:2")
    assert "1.40 times slower" in other(step_s=1.4) and "1.43 times faster" in other(step_s=0.7)
    assert other(step_s=1.4, sigma=0.2) == "", "its own noise may explain it"


def test_what_is_kept_for_one_node_is_done_there_once_nothing_else_is_to_be_done() -> None:
    crew, lines = crew_of(removed, removed)
    begun = crew.begin([task(n, []) for n in (7, 8)], "n1")
    came = crew.run([task(n, []) for n in range(6)])
    assert [each.value for each in came] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    later = crew.finish(begun)
    assert [(each.node, each.value) for each in later] == [("n1", 7.0), ("n1", 8.0)]
    numbers = [said.number for said in lines[1].heard if isinstance(said, RunRemoval)]
    assert numbers[0] == 7 and numbers[-1] == 8, "it was idle when the first was asked, and not again"


def test_what_was_kept_for_a_node_that_is_gone_is_done_here() -> None:
    crew, lines = crew_of(removed, lambda said: None)
    done: list[int] = []
    begun = crew.begin([task(n, done) for n in (7, 8)], "n1")
    lines[1].send = lost  # type: ignore[method-assign]
    lines[1].receive = lambda timeout_s: lost("")  # type: ignore[method-assign]
    assert [each.node for each in crew.finish(begun)] == ["here", "here"] and done == [7, 8]
    assert [each.node for each in crew.finish(crew.begin([task(9, done)], "n1"))] == ["here"]


def test_what_follows_of_a_result_is_measured_too_and_stands_behind() -> None:
    crew, _ = crew_of(removed)

    def then(place: int, came: Came[float]) -> Task[float] | None:
        return task(10 + place, []) if place in (0, 2) else None

    came = crew.run([task(n, []) for n in range(4)], then)
    assert [each.value for each in came[:4]] == [0.0, 1.0, 2.0, 3.0]
    assert sorted(each.value or 0.0 for each in came[4:]) == [10.0, 12.0]


def asked_at(line: PaperLine) -> list[int]:
    return [said.number for said in line.heard if isinstance(said, RunRemoval)]


def ahead(crew: Crew, *numbers: int) -> list[int]:
    asked = [task(n, []).asked for n in numbers]
    return crew.ahead([each for each in asked if each is not None])


def test_what_was_asked_ahead_is_measured_when_nothing_else_is_and_counts_once_it_is_wanted() -> None:
    crew, lines = crew_of(removed, removed)
    ahead(crew, 7, 8)
    assert not lines[0].heard and not lines[1].heard, "what is to be measured next comes first"
    done: list[int] = []
    assert [each.value for each in crew.run([task(0, done, only_here=True), task(1, done)])] == [0.0, 1.0]
    assert (asked_at(lines[0]), asked_at(lines[1])) == ([1], [7]), "towards the end nothing is begun ahead"
    came = crew.run([task(n, done) for n in (8, 7)])
    assert [each.value for each in came] == [8.0, 7.0] and came[1].node == "n1"
    assert asked_at(lines[1]).count(7) == 1


def test_what_was_asked_ahead_is_asked_again_where_it_was_lost() -> None:
    crew, (line, _) = crew_of(removed, removed)
    ahead(crew, 7)
    done: list[int] = []
    crew.begin([])
    assert asked_at(line) == [7]
    line.receive = lambda timeout_s: lost("")  # type: ignore[method-assign]
    crew.listen()
    came = crew.run([task(7, done), task(9, done)])
    assert [(each.node, each.value) for each in came] == [("n1", 7.0), ("here", 9.0)]


def test_what_was_asked_ahead_and_is_likely_no_more_is_not_begun() -> None:
    crew, lines = crew_of(removed, removed)
    keys = ahead(crew, 7, 8)
    crew.forget(keys)
    crew.begin([])
    crew.run([task(n, []) for n in range(2)])
    assert not {7, 8} & {*asked_at(lines[0]), *asked_at(lines[1])}
    assert [each.value for each in crew.run([task(8, [])])] == [8.0]


def lost(line: str) -> None:
    raise BenchLost("gone")
