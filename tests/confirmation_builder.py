"""A confirmation of ``execution=compile`` that starts nothing: its windows and the gate's runs are given."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from builders import a_loader, a_profile, a_root

from advisor.base.settings import Settings, TargetRequest
from advisor.base.signals import StopRequests
from advisor.profiles.facts.profile import RunFacts
from advisor.report.progress import progress_here
from advisor.result.document import PlannedRun, Recommendation
from advisor.stages.assemble import _planned, _recommendation
from advisor.stages.baseline import Baseline
from advisor.stages.batch_size import Batches
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.confirmation import Confirmation
from advisor.stages.confirming.longer_run import LongerRun
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.launching import Caller
from advisor.stages.trials import TrialLog
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.held import Held
from advisor.tuners.comparing.measure import within
from advisor.tuners.comparing.standby import Ahead
from advisor.tuners.comparing.ways import WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.measured import Measured
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import Slot, SlotMeasured

Objective = Literal["goodput", "throughput", "memory"]
EAGER = Configuration({"execution": "eager"})
COMPILED = Configuration({"execution": "compile"})
STEP_S = 0.1
COMPILE_S = 30.0
SAVED = 1.8  # of memory
LOSSES = (2.30, 2.20, 2.11, 2.05)


def some_settings(objective: Objective, **options: Any) -> Settings:
    return Settings(target=TargetRequest(kind="script", name="train.py"), objective=objective, **options)


def a_baseline(run: RunFacts | None = None) -> Baseline:
    """Steps of ``STEP_S``; of the rest only what a confirmation and a result read."""
    profile = a_profile(loader=a_loader(dataset_length=1000), roots=(a_root(),), run=run or RunFacts())
    known = SimpleNamespace(
        profile=profile,
        session=None,
        end=lambda: None,
        detectable=0.02,
        step_s=STEP_S,
        startup_s=0.0,
        aa=within([0.0] * 8, 0.99),
    )
    return cast(Baseline, known)


def a_bench(arena: Any, baseline: Any, settings: Any, end: float) -> MeasuredBench:
    """One on which an arena that starts nothing stands; its budget ends when the clock says ``end``."""
    caller = Caller(progress_here(quiet=True), StopRequests())
    return MeasuredBench(settings, caller, arena.launcher, arena, end - settings.budget_s, baseline)


def quiet_log(measured: Measured | None = None) -> TrialLog:
    return TrialLog(progress_here(quiet=True), lambda: 0.0, 0.0, measured=measured or Measured())


def confirmed(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    changed_step_s: float,
    *,
    run: RunFacts | None = None,
    named: frozenset[str] = frozenset(),
    peak_bytes: int = 1,
    gate_s: float = COMPILE_S,
    compiled_s: Callable[[Configuration], float | None] = lambda config: None,
    nominee: Mapping[str, Value] | None = None,
    cut_off: Sequence[Failure] = (),
    seconds: Iterator[float] | None = None,
    refused: dict[str, str] | None = None,
    refused_later: dict[str, str] | None = None,
    measured: Measured | None = None,
    stands: Mapping[str, Value] | None = None,
) -> Outcome:
    """What comes of compiling, or of a nominee, which takes ``gate_s`` in the gate's run and saves memory.

    The first processes are ``cut_off``; ``seconds`` are told by the clock, of 1,000 in all. Knobs of the
    nominee that are ``refused`` decline in every process, those ``refused_later`` in the longer run.
    """
    ratio = math.log(SAVED if settings.objective == "memory" else STEP_S / changed_step_s)

    failures = iter(cut_off)

    def declining(config: Configuration, names: dict[str, str] | None) -> dict[str, str]:
        return {name: why for name, why in (names or {}).items() if config[name] not in ("off", "eager")}

    def duel(*of: Any, **how: Any) -> Duel:
        for failure in failures:
            raise TrialFailed(failure)
        message = SlotMeasured(refused=declining(of[1], refused))
        slots = [Slot((STEP_S,) * 5)], [Slot((changed_step_s,) * 5)]
        return Duel(WINDOWS, [ratio], *slots, second_message=message)

    monkeypatch.setattr(gate, "learn", lambda *of, **how: gate.Learning(LOSSES, peak_bytes, compile_s=gate_s))
    monkeypatch.setattr(
        "advisor.stages.confirming.lasting.run_longer",
        lambda arena, config, *of, **how: (
            LongerRun(30, peak_bytes, 0.0, declining(config, refused_later)),
            SimpleNamespace(alive=False, kill=lambda: None),
        ),
    )
    arena = SimpleNamespace(
        knobs=KNOBS, launcher=SimpleNamespace(target=SimpleNamespace(kind="script"), launches=4),
        step_s=STEP_S, threads=1, max_steps=None, quad_s=0.1, sigma=0.02, log="", steps=lambda: 5, duel=duel,
        ahead=Ahead(), held=Held(), start_together=lambda *configs: False,
        how=lambda *configs, **options: WINDOWS, may_switch=lambda *configs: False, settled=dict,
        queue_depth=lambda config: 0, window_steps=lambda config, fresh=False: (3, 5),
        timed=False, clock=lambda: next(seconds or iter([0.0])),
    )  # fmt: skip
    present = EAGER if nominee is None else EAGER.with_({"amp": "off"})
    space = Space(present, present, {}, [], a_baseline(run).profile, named)
    bench = a_bench(arena, a_baseline(run), settings, end=1000.0)
    log = quiet_log(measured)
    log.first_compile_s = compiled_s  # type: ignore[assignment, method-assign]
    before = None if stands is None else Configuration(stands)
    batches = Batches(settings, log.progress)
    confirmation = Confirmation(bench, space, log, batches, 1, stands=before)
    return confirmation.decide(Configuration(nominee or COMPILED), reduced=measured is not None)


def told(
    outcome: Outcome, settings: Settings, run: RunFacts | None = None
) -> tuple[Recommendation, PlannedRun | None]:
    """What the result says of it."""
    batches, space = Batches(settings, cast(Any, None)), cast(Any, SimpleNamespace(present=EAGER))
    found = _recommendation(settings, a_baseline(run), space, outcome, batches)
    return found, _planned(settings, a_baseline(run), space, found, batches)
