"""Which changes of a form are left out whose answers disagree; the answers themselves are scripted."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from advisor.stages.confirming.agreement import AGAIN, MOST, SHARE, TAKEN, AgreementCheck
from advisor.stages.confirming.numerics import Numerics
from advisor.tuners.accuracy.acceptance import Acceptance
from advisor.tuners.knob import Semantics, Value
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.trial.numerics.kept_outputs import KeptOutputs

PRESENT = Configuration({"runtime": "torch", "spinning": "off", "layout": "rows"})
NAMES = [str(place) for place in range(9)]
ALL = PRESENT.with_({"runtime": "onnx", "spinning": "on", "layout": "columns"})


class SpinsInOnnx:
    """A space in which spinning does nothing without the other runtime."""

    present = PRESENT

    def complete(self, partial: Mapping[str, Value]) -> Configuration:
        config = PRESENT.with_(dict(partial))
        return config if config["runtime"] == "onnx" else config.with_({"spinning": "off"})

    def without(self, config: Configuration, knob: str) -> Configuration:
        return self.complete(config.with_({knob: PRESENT[knob]}))


class Scripted(AgreementCheck):
    """Refuses configurations that hold what is wrong."""

    wrong: tuple[str, ...] = ()

    def _outputs(self, *_: Any, **__: Any) -> list[Any]:
        return [KeptOutputs(), KeptOutputs()]

    def _judge(self, config: Configuration, found: Numerics, name: str = "") -> Acceptance:
        changed = config.changed(PRESENT)
        assert changed, "a process of the program as it is says nothing of a change"
        if not all(each in changed for each in self.wrong):
            return Acceptance("accepted", "agreement", "same")
        if name:
            found.rejected[name] = "others"
        return Acceptance("refused", "agreement", "others")


@pytest.mark.parametrize(
    ("wrong", "left"),
    [
        (("layout",), ("runtime", "spinning")),
        (("runtime",), ("layout",)),
        (("spinning",), ("runtime", "layout")),
        (("runtime", "layout"), ()),
    ],
)
def test_what_does_nothing_alone_is_left_out_with_what_it_needs_or_by_itself(
    wrong: tuple[str, ...], left: tuple[str, ...]
) -> None:
    check = Scripted(_bench(), SpinsInOnnx())  # type: ignore[arg-type]  # no process is started
    check.wrong = wrong
    found = check.run(ALL)
    assert set(found.config.changed(PRESENT)) == set(left)
    assert set(wrong) <= set(found.rejected)


class Timed(AgreementCheck):
    """Answers at once; notes how much was asked for, and within which time."""

    asked: list[tuple[float, ...]]

    def _of_one_process(
        self, config: Mapping[str, Value], most: Sequence[int], reference: bool
    ) -> list[KeptOutputs]:
        self.asked.append((*most, self._limit_s))
        return [KeptOutputs(NAMES, [[0.0]] * 9, asked=NAMES) for _ in most]


def test_keeping_outputs_takes_a_share_of_what_is_left_and_no_more_than_can_be_compared() -> None:
    check = Timed(_bench(), SpinsInOnnx())  # type: ignore[arg-type]  # no process is started
    check.asked = []
    found = check.run(ALL)
    assert check.asked == [(MOST, AGAIN, SHARE * 100.0 / TAKEN), (9, SHARE * 100.0 / TAKEN)]
    assert found.config == ALL and "9 samples" in found.verdicts[""].reason


@pytest.mark.parametrize(
    ("step_s", "limit_s"), [(0.001, SHARE * 100.0 / TAKEN), (0.02, 1.2 * 459 * 0.02), (0.1, 35.0)]
)
def test_answers_that_take_long_are_kept_for_longer_where_many_decide(step_s: float, limit_s: float) -> None:
    check = Timed(_bench(Semantics.PRECISION, step_s), SpinsInOnnx())  # type: ignore[arg-type]  # no process
    check.asked = []
    check.run(ALL)
    assert check.asked[0] == pytest.approx((MOST, AGAIN, limit_s))


class Forgetful(Timed):
    """The program as it is answers otherwise each time; one that only remembers, from the start again."""

    starts_over: bool

    def _of_one_process(
        self, config: Mapping[str, Value], most: Sequence[int], reference: bool
    ) -> list[KeptOutputs]:
        self._dealt = True
        self.asked.append((len(most), 0.0))
        first = 0.0 if self.starts_over else float(len(self.asked))
        return [KeptOutputs(NAMES, [[1.0 + first + number]] * 9, asked=NAMES) for number in range(len(most))]


@pytest.mark.parametrize(("starts_over", "verdict"), [(True, "identical"), (False, "not_checked")])
def test_a_program_that_answers_otherwise_each_time_is_compared_from_its_start_or_not_at_all(
    starts_over: bool, verdict: str
) -> None:
    check = Forgetful(_bench(), SpinsInOnnx())  # type: ignore[arg-type]  # no process is started
    check.asked, check.starts_over = [], starts_over
    found = check.run(ALL)
    assert found.verdicts[""].verdict == verdict
    assert bool(found.config.changed(PRESENT)) == starts_over


class Objects(Timed):
    """Answers with objects of which nothing is known."""

    def _of_one_process(
        self, config: Mapping[str, Value], most: Sequence[int], reference: bool
    ) -> list[KeptOutputs]:
        return [KeptOutputs(["0"], [{"Boxes": None}], asked=["0"])] * len(most)


def test_answers_that_hold_nothing_to_compare_are_not_taken_for_the_same() -> None:
    found = Objects(_bench(), SpinsInOnnx()).run(ALL)  # type: ignore[arg-type]  # no process is started
    assert found.verdicts[""].verdict == "not_checked" and not found.config.changed(PRESENT)


class Repeating(Timed):
    """Asks so many different things over and over, and is answered the same."""

    different: int

    def _of_one_process(
        self, config: Mapping[str, Value], most: Sequence[int], reference: bool
    ) -> list[KeptOutputs]:
        keys, scores = [str(place) for place in range(900)], torch.eye(4)
        asked = [str(place % self.different) for place in range(900)]
        return [KeptOutputs(keys, [scores[place % 4] for place in range(900)], asked=asked)] * len(most)


@pytest.mark.parametrize(("different", "accepted"), [(5, False), (600, True)])
def test_a_question_asked_often_is_one_sample_of_fewer_bits(different: int, accepted: bool) -> None:
    check = Repeating(_bench(Semantics.PRECISION), SpinsInOnnx())  # type: ignore[arg-type]  # no process
    check.different = different
    found = check.run(ALL)
    assert (found.config == ALL) == accepted
    assert f"900 requests asked only {different} different things" in found.verdicts[""].reason
    if not accepted:
        assert "to tell them from 1.00% takes about 459 samples" in found.reason


class Sampling(Repeating):
    """Asks one thing, and is answered with as many texts as it has different ones."""

    def _of_one_process(
        self, config: Mapping[str, Value], most: Sequence[int], reference: bool
    ) -> list[KeptOutputs]:
        keys = [str(place) for place in range(900)]
        texts = [torch.tensor([place % self.different, 7]) for place in range(900)]
        return [KeptOutputs(keys, texts, asked=["once"] * 900)] * len(most)


@pytest.mark.parametrize(("different", "accepted"), [(5, False), (600, True)])
def test_texts_that_are_drawn_for_one_question_are_samples_of_their_own(
    different: int, accepted: bool
) -> None:
    check = Sampling(_bench(Semantics.PRECISION), SpinsInOnnx())  # type: ignore[arg-type]  # no process
    check.different = different
    assert (check.run(ALL).config == ALL) == accepted


def _bench(semantics: Semantics = Semantics.ROUNDING, step_s: float = 0.001) -> SimpleNamespace:
    knobs = {name: SimpleNamespace(meaning=lambda _: semantics) for name in ALL}
    baseline = SimpleNamespace(profile=SimpleNamespace(run=None))
    return SimpleNamespace(room_s=100.0, arena=SimpleNamespace(knobs=knobs, step_s=step_s), baseline=baseline)
