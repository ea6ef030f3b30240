"""How long one look may compile on another node."""

from pathlib import Path

import pytest
from replayed_benches import ReplayedLine
from replayed_program import Program
from replayed_sessions import ReplayingLauncher

from advisor.base.durations import write_duration
from advisor.base.settings import Settings, TargetRequest
from advisor.tuners.benches.messages import NotMeasured, Open, RunRace, Teach, understood, written
from advisor.tuners.knob import Value
from advisor.tuners.trial.spec import Target

pytestmark = pytest.mark.usefixtures("own_folder")

PRESENT: dict[str, Value] = {"execution": "eager"}
COMPILED: dict[str, Value] = {"execution": "compile"}


@pytest.mark.parametrize(("left_s", "limit_s"), [(20.0, 24.0), (200.0, 100.0)])
def test_a_look_elsewhere_compiles_for_half_of_the_time_left(
    left_s: float, limit_s: float, tmp_path: Path
) -> None:
    program = Program(startup_s=2.0, compile_s=2400.0)
    here = ReplayingLauncher(Target("module", "train"), tmp_path, program=program)
    bench = ReplayedLine("b", program, tmp_path, here)
    settings = Settings(target=TargetRequest(kind="module", name="train"), budget_s=600.0)
    for said in (Open(settings, str(tmp_path)), Teach(PRESENT, (), None, 0.01)):
        bench.send(written(said))
    assert bench.receive(60.0) is not None
    usual_s = bench.launcher.limits.compile_s
    bench.send(written(RunRace(7, 1, PRESENT, COMPILED, 0.0, left_s)))
    line = bench.receive(600.0)
    assert line is not None
    answer = understood(line)
    assert isinstance(answer, NotMeasured) and answer.failure.cause == "timeout"
    assert answer.failure.message.endswith(f"to compile for more than {write_duration(limit_s)}")
    assert limit_s <= answer.seconds < limit_s + 20.0 and bench.launcher.limits.compile_s == usual_s
    bench.close()
