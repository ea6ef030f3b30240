"""Pairs on several nodes at once: which belong together, up to which look, and in which order they count."""

from dataclasses import dataclass

import pytest

from advisor.stages.confirming.pair_waves import PairWaves, chunks, wave_end
from advisor.tuners.benches.crew import Crew
from advisor.tuners.benches.messages import Opened, Pong, written
from advisor.tuners.benches.remote import SILENT_S, RemoteBench
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.instance import Instance
from advisor.tuners.comparing.looks import LOOKS
from advisor.tuners.comparing.pair_places import Where
from advisor.tuners.supervision.failures import Failure, TrialFailed


@pytest.mark.parametrize(
    ("there", "benches", "end"),
    [(0, 1, 2), (2, 1, 4), (8, 1, 12), (0, 2, 4), (4, 2, 8), (8, 2, 12), (0, 3, 6), (0, 4, 8), (8, 4, 12),
     (0, 8, 12), (1, 1, 2), (1, 4, 8), (3, 2, 6), (11, 4, 12)],
)  # fmt: skip
def test_a_wave_takes_no_longer_than_the_pairs_up_to_the_next_look(
    there: int, benches: int, end: int
) -> None:
    assert wave_end(there, benches, LOOKS[-1]) == end


@pytest.mark.parametrize(
    ("there", "benches", "enough", "end"),
    [(0, 8, 4, 4), (0, 8, 3, 4), (0, 8, 5, 6), (0, 1, 4, 2), (2, 8, 4, 4), (4, 8, 4, 12), (4, 2, 4, 8)],
)
def test_the_first_wave_has_no_more_pairs_than_are_enough(
    there: int, benches: int, enough: int, end: int
) -> None:
    assert wave_end(there, benches, enough) == end


def test_after_the_last_look_no_pair_is_asked() -> None:
    pairs, asked = waves()
    pairs.begin(LOOKS[-1], 4)
    assert pairs.ask_ahead(LOOKS[-1], 4) == [] and not asked


def test_both_orders_of_roles_belong_to_one_node() -> None:
    assert [list(each) for each in chunks(0, 6)] == [[0, 1], [2, 3], [4, 5]]
    assert [list(each) for each in chunks(3, 8)] == [[3], [4, 5], [6, 7]]


OPENED = Opened("f", "a machine", "3.11", "sha256:1", 1.0, 0.01, 2.0)


@dataclass
class Measuring:
    """A line to a node that is there, and measures on."""

    node: str = "b"
    now_s: float = 0.0

    def send(self, line: str) -> None:
        """It is heard."""

    def receive(self, timeout_s: float) -> str:
        self.now_s += timeout_s
        return written(Pong())

    def close(self) -> None:
        """It ends."""


def waves(late_from: int = 99, fails_at: int = -1) -> tuple[PairWaves, list[tuple[int, int, bool]]]:
    asked: list[tuple[int, int, bool]] = []

    def instance(place: int, hold: bool) -> Instance:
        return Instance(place, {"a": 1}, {"a": 2}, "live", 3, hold=hold)

    def here(one: Instance, together: int) -> Duel | None:
        asked.append((one.place, together, one.hold))
        if one.place == fails_at:
            raise TrialFailed(Failure("user_error", "it ended"))
        return None if one.place >= late_from else Duel("live", [float(one.place)])

    return PairWaves(Crew(lambda: 0.0, node="a"), instance, here), asked


def test_without_others_pairs_come_up_to_the_next_look_and_the_last_is_held() -> None:
    of, asked = waves()
    assert [duel.log_ratios for duel in (of.next(0), of.next(1), of.next(2)) if duel] == [[0.0], [1.0], [2.0]]
    assert asked == [(0, 2, False), (1, 1, True), (2, 2, False), (3, 1, True)]
    assert of.where == [Where("a", 2), Where("a", 2), Where("a", 4)] and of.has(3)


def test_where_it_is_too_late_for_a_pair_there_is_none() -> None:
    of, _ = waves(late_from=1)
    assert of.next(0) is not None and of.next(1) is None


def test_a_failure_is_raised_at_its_place() -> None:
    of, _ = waves(fails_at=2)
    assert of.next(0) is not None and of.next(1) is not None
    with pytest.raises(TrialFailed, match="it ended"):
        of.next(2)


def test_pairs_of_a_node_that_had_not_ended_in_time_are_not_there() -> None:
    of, asked = waves()
    line = Measuring()
    bench = RemoteBench(line, lambda: line.now_s)
    bench.opened = OPENED
    of.crew, of.until = Crew(lambda: line.now_s, others=[bench], node="a"), 60.0
    of.begin(0, 1)
    assert of.next(0) is None, "they were all to come from there"
    assert 60.0 <= line.now_s < 60.0 + SILENT_S and not asked
