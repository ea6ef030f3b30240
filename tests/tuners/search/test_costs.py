"""Seconds of a trial follow from how two configurations are compared on this program."""

from typing import Any

import pytest

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.windows import Window
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.costs import LIVE_QUADS, LONG_LIVE_QUADS, Costs
from advisor.tuners.search.race import DUEL_QUADS, LONG_DUEL_QUADS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.constraints import COMPILE_S
from advisor.tuners.trial.messages import Slot, SlotMeasured, TrialOutcome

PRESENT = Configuration({"amp": "off", "malloc": "libc", "num_workers": 0, "execution": "eager"})


def costs(startup_s: float = 10.0, **arena: Any) -> Costs:
    return Costs(Arena(None, KNOBS, PRESENT, **{"step_s": 0.1, **arena}), startup_s)  # type: ignore[arg-type]  # nothing is started


def test_a_live_knob_costs_its_quads_however_long_a_start_takes() -> None:
    for step_s, quads in ((0.01, LIVE_QUADS), (1.0, LONG_LIVE_QUADS)):
        known = costs(60.0, step_s=step_s)
        expected = pytest.approx(quads * known.arena.quad_s)
        config = PRESENT.with_({"amp": "bf16"})
        assert known.trial_s(PRESENT, config) == expected
        assert known.trial_s(PRESENT, config, speed=2.0) == pytest.approx(quads / 2 * known.arena.quad_s)


@pytest.mark.parametrize(("step_s", "quads"), [(0.01, DUEL_QUADS), (0.1, LONG_DUEL_QUADS)])
def test_a_knob_of_a_process_costs_two_starts_and_fewer_of_long_quads(step_s: float, quads: int) -> None:
    known = costs(step_s=step_s)
    expected = 2 * known.launch_s + quads * known.arena.quad_s
    assert known.trial_s(PRESENT, PRESENT.with_({"malloc": "libc-tuned"})) == pytest.approx(expected)


def test_compiling_counts_once_and_not_again_beside_an_incumbent_that_compiles() -> None:
    known, compiled = costs(), PRESENT.with_({"execution": "compile"})
    restarted = known.trial_s(PRESENT, PRESENT.with_({"malloc": "libc-tuned"}))
    assert known.trial_s(PRESENT, compiled) == pytest.approx(restarted + COMPILE_S)
    both = compiled.with_({"malloc": "libc-tuned"})
    assert known.trial_s(compiled, both) == pytest.approx(restarted)


def test_a_loader_knob_costs_the_windows_of_the_candidate_and_of_what_was_not_measured_before() -> None:
    known, config = costs(), PRESENT.with_({"num_workers": 4})
    window_s = sum(known.arena.window_steps(config)) * known.arena.step_s
    own_s = sum(known.arena.window_steps(PRESENT)) * known.arena.step_s
    both_s = 2 * known.launch_s + window_s + own_s
    assert known.trial_s(PRESENT, config) == pytest.approx(both_s)
    known.arena.kept.keep(PRESENT, Window(Slot((0.1,)), SlotMeasured(), TrialOutcome("stopped"), 10.0))
    assert known.trial_s(PRESENT, config) == pytest.approx(known.launch_s + window_s)


def test_a_way_of_comparing_within_one_process_costs_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arena, "how", lambda self, first, second, fresh=False: "switched")
    config = PRESENT.with_({"num_workers": 4})
    quick, slow = (costs(startup_s).trial_s(PRESENT, config) for startup_s in (1.0, 60.0))
    assert quick == slow > 0


@pytest.mark.parametrize(("context", "start_s"), [("fork", 0.4), ("forkserver", 30.0), ("spawn", 30.0)])
def test_workers_that_are_started_anew_import_what_the_program_does(
    context: str, start_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Arena, "how", lambda self, first, second, fresh=False: "switched")
    known, config = costs(30.0), PRESENT.with_({"num_workers": 4, "multiprocessing_context": context})
    steps_s = sum(known.arena.window_steps(config)) * known.arena.step_s
    assert known.trial_s(config, config) >= start_s + steps_s
    assert known.trial_s(PRESENT, config) - known.trial_s(PRESENT, PRESENT) == pytest.approx(start_s)


def test_a_form_that_each_process_makes_costs_as_often_as_processes_start() -> None:
    known, served = costs(), Configuration({"quantization": "none", "runtime": "torch", "execution": "eager"})
    quick = known.trial_s(served, served.with_({"quantization": "int8_dynamic"}))
    exported, static = served.with_({"runtime": "onnxruntime"}), served.with_({"quantization": "int8_static"})
    assert known.trial_s(served, exported) == pytest.approx(quick + known.making_s(exported))
    assert known.trial_s(static, exported) == pytest.approx(
        quick + known.making_s(exported) + known.making_s(static)
    )
    assert known.making_s(exported) < known.making_s(static) < known.making_s({"runtime": "aot_inductor"})
    assert known.making_s(exported.with_({"quantization": "int8_static"})) == known.making_s(exported)
