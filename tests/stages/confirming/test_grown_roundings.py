"""Whoever judges numbers asks how far roundings grow before a change of rounding is refused."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from builders import a_profile, a_root
from confirmation_builder import a_bench, quiet_log, some_settings

from advisor.base.settings import Settings
from advisor.runs.verify import ORIGINAL, OVERRUN, PATCHED, PROGRAM
from advisor.stages.batch_size import Batches
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.confirmation import Confirmation
from advisor.stages.confirming.numerics import NumericsGate
from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.held import Held
from advisor.tuners.comparing.standby import Ahead
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import Failure, TrialFailed

BASELINE = (2.30, 2.20, 2.11, 2.05)
APART = (2.30, 2.20, 2.113, 2.06)
NUDGED = (2.30, 2.20, 2.112, 2.055)
OTHER_SEED = (2.50, 2.40, 2.30, 2.25)
BUDGET_S = 1000.0


class Learning:
    """Stands in for ``gate.learn``: recorded losses; ``candidate`` is what is changed."""

    def __init__(self, candidate: Mapping[str, Value]) -> None:
        self._candidate = candidate
        self.nudges: list[int] = []
        self.through = False

    def __call__(
        self, arena: Any, config: Mapping[str, Value], steps: int = 0, seed_offset: int = 0, nudge: int = 0
    ) -> gate.Learning:
        self.through |= config == self._candidate
        losses = OTHER_SEED if seed_offset else BASELINE
        if nudge:
            assert config != self._candidate
            self.nudges.append(nudge)
            losses = NUDGED
        return gate.Learning(APART if config == self._candidate else losses, 1)


def a_program(settings: Settings, clock: Callable[[], float]) -> MeasuredBench:
    """On a bench that starts nothing."""

    def duel(*arguments: Any, **options: Any) -> None:
        raise TrialFailed(Failure("user_error", "nothing is started here"))

    arena = SimpleNamespace(
        knobs=KNOBS, launcher=SimpleNamespace(target=SimpleNamespace(kind="script")), step_s=0.01,
        max_steps=None, quad_s=0.1, sigma=0.02, log="", steps=lambda: 5, duel=duel,
        ahead=Ahead(), held=Held(),
        clock=clock, starts=lambda *configs: 1,
        how=lambda *configs, **options: "baton", timed=False,
    )  # fmt: skip
    baseline = SimpleNamespace(
        profile=a_profile(roots=(a_root(),)), session=None, end=lambda: None, detectable=0.02, startup_s=0.0
    )
    return a_bench(arena, baseline, settings, end=BUDGET_S)


def confirmed(monkeypatch: pytest.MonkeyPatch, spent_s: float) -> tuple[Outcome, list[int]]:
    present = Configuration({"channels_last": "off"})
    nominee = Configuration({"channels_last": "on"})
    learning = Learning(nominee)
    monkeypatch.setattr(gate, "learn", learning)
    space = SimpleNamespace(
        present=present,
        complete=present.with_,
        without=lambda config, knob: config.with_({knob: present[knob]}),
    )
    settings = some_settings("throughput", budget_s=BUDGET_S)
    confirmation = Confirmation(
        a_program(settings, lambda: spent_s if learning.through else 0.0),
        cast(Any, space),
        quiet_log(),
        Batches(settings, cast(Any, None)),
        1,
    )
    return confirmation.decide(nominee), learning.nudges


def test_a_confirmation_asks_before_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, nudges = confirmed(monkeypatch, 0.0)
    assert outcome.numerics[""].verdict == "within_noise" and nudges == [1]
    assert "grows from roundings" in outcome.numerics[""].reason and not outcome.rejected


def test_without_time_to_ask_a_confirmation_refuses_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, nudges = confirmed(monkeypatch, 2 * BUDGET_S)
    assert outcome.numerics[""].verdict == "drifts" and not nudges
    assert outcome.rejected["channels_last"].endswith("could not be seen: no time was left")
    assert outcome.reason.startswith("channels_last=on: the numbers drift: losses of the first ")


def test_the_check_of_a_patched_program_asks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    first: dict[str, Value] = {PROGRAM: ORIGINAL}
    second: dict[str, Value] = {PROGRAM: PATCHED}
    learning = Learning(second)
    monkeypatch.setattr(gate, "learn", learning)
    numerics = NumericsGate.open(
        a_program(some_settings("throughput", budget_s=BUDGET_S), lambda: 0.0), first, OVERRUN
    )
    judged = numerics.judge(numerics.learn(second), ["channels_last"], {"channels_last": "on"})
    assert judged.verdict == "within_noise" and learning.nudges == [1]
