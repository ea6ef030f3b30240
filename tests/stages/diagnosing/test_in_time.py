"""A profile keeps its budget, also of a program that ends again and again and starts slowly."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from remembered_progress import Told
from replayed_program import Program
from replayed_sessions import ReplayingLauncher

from advisor.base.settings import Settings, TargetRequest
from advisor.base.signals import StopRequests
from advisor.stages.bench import open_bench
from advisor.stages.launching import Caller
from advisor.tuners.trial.spec import Target


@pytest.mark.parametrize(("startup_s", "budget_s"), [(40.0, 60.0), (70.0, 120.0), (100.0, 120.0)])
def test_what_would_end_after_the_budget_is_left_out(
    startup_s: float, budget_s: float, tmp_path: Path
) -> None:
    program = Program(steps=110, startup_s=startup_s, without={})
    launcher = ReplayingLauncher(Target("script", os.devnull), tmp_path, program=program)
    settings = Settings(target=TargetRequest(kind="script", name=os.devnull), budget_s=budget_s)
    with ExitStack() as stack:
        caller = Caller(Told(), stack.enter_context(StopRequests()))

        def launching(settings: Settings, folder: Path, caller: Caller) -> ReplayingLauncher:
            return launcher

        bench = stack.enter_context(
            open_bench(settings, tmp_path, caller, began=0.0, launching=launching, clock=lambda: launcher.now)
        )
        diagnosis = bench.diagnosis(bench.deadline, watched=bench.end_in_time)
        profile = diagnosis.run()
    assert profile.series is not None and profile.series.steps > 10
    assert launcher.now <= 1.2 * budget_s and not launcher.live
    assert any("time" in note for note in diagnosis.notes)
