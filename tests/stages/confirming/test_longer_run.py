"""What is to be recommended runs longer than it was measured, and tells how its memory grows."""

from pathlib import Path

import pytest
from builders import a_loader, a_profile
from growing_profiles import a_growing_profile, read

from advisor.profiles.facts.growing import GrowingVariable
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import RunFacts
from advisor.rules import memory_growth
from advisor.stages.confirming.longer_run import (
    TIMES,
    LongerRun,
    ends_early,
    lasts_by,
    run_longer,
    steps_more,
    usual_steps,
)
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import LIVE, WINDOWS
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.spec import Target

LEAK = 2**21  # bytes a step
STEPS = 10
SETTLING = 20  # steps before the first sample of memory that counts, and 10 between two
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))"
PROGRAM = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    {body}
"""

pytestmark = pytest.mark.usefixtures("no_process_remains", "warm_trials")


def longer(folder: Path, body: str, steps: int = 100_000, *, times: int = 1, made: int = 0) -> LongerRun:
    """Of a fresh process, or of one that has made steps already."""
    (folder / "train.py").write_text(PROGRAM.format(body=body, steps=steps))
    target = Target("script", str(folder / "train.py"), cwd=str(folder))
    launcher = Launcher(target, folder / "study", device="cpu")
    launcher.limits.start_s = 120
    (folder / "study").mkdir()
    with launcher:
        arena = Arena(launcher, KNOBS, {}, step_s=0.001)
        running = None
        if made:
            running = arena.start({}, 1)
            running.first_step()
            running.slot(made, drop=0)
        run, session = run_longer(arena, {}, times * STEPS, 1, running)
        session.kill()
        return run


def test_what_every_step_keeps_is_told_as_growth(tmp_path: Path) -> None:
    run = longer(tmp_path, f"kept.append(bytearray(b'x' * {LEAK}))")
    assert run.steps >= TIMES * STEPS
    assert run.growth_bytes_per_step is not None
    assert LEAK / 2 < run.growth_bytes_per_step < 2 * LEAK
    assert run.peak_bytes > TIMES * STEPS * LEAK


def test_a_program_that_keeps_nothing_does_not_grow(tmp_path: Path) -> None:
    run = longer(tmp_path, "pass")
    assert run.growth_bytes_per_step is not None and run.growth_bytes_per_step < LEAK / 8


def test_a_process_that_has_made_the_usual_steps_makes_only_the_others(tmp_path: Path) -> None:
    run = longer(tmp_path, f"kept.append(bytearray(b'x' * {LEAK}))", made=STEPS)
    assert TIMES * STEPS <= run.steps < (TIMES + 1) * STEPS
    assert run.growth_bytes_per_step is not None
    assert LEAK / 2 < run.growth_bytes_per_step < 2 * LEAK


def test_memory_that_ends_after_the_usual_steps_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed) as raised:
        longer(tmp_path, f"kept.extend([] if step < {2 * STEPS} else bytearray(2**60))")
    assert raised.value.failure.cause == "oom_host"


def test_a_program_that_ends_before_has_run_as_long_as_it_can(tmp_path: Path) -> None:
    run = longer(tmp_path, "pass", steps=STEPS + 5)
    assert run.steps <= STEPS + 5
    assert run.peak_bytes > 0 and run.growth_bytes_per_step is None


def test_a_limit_that_the_training_will_meet_is_told(tmp_path: Path) -> None:
    run = longer(tmp_path, f"{LIMITED}; kept.append(open(__file__))", times=8)
    told = ends_early(run, a_profile(run=RunFacts()), 5000)
    assert told.startswith("it will not last: 1 more open files after each step: the limit of 1,024 is met")
    assert "`kept` grows with it" in told
    assert not ends_early(run, a_profile(run=RunFacts()), 500)


def test_a_limit_that_workers_alone_would_meet_is_told_with_what_keeps_from_it() -> None:
    kept = GrowingVariable("labels", 1.0, Location("train.py", 61), "batch")
    loader = a_loader(num_workers=0, dataset_length=64_000, batch_size=32)
    baseline = a_growing_profile(read("memory", lambda step: 1e6), variables=[kept], loader=loader)
    by_name: dict[str, int | str] = {"num_workers": 2, "sharing_strategy": "file_system"}
    told = lasts_by(by_name, baseline)
    assert told.startswith(
        "1 tensors of each batch are kept in `labels`: from workers each would hold a file"
    )
    assert "the limit of 1,024 would be met at step 1,024 of 2,000" in told and "sharing_strategy" in told
    assert not lasts_by({**by_name, "num_workers": 0}, baseline)
    assert not lasts_by(by_name, a_growing_profile(read("memory", lambda step: 1e6), loader=loader))


def test_usual_steps_are_those_of_one_process_of_a_confirmation() -> None:
    arena = Arena(None, KNOBS, {}, step_s=0.1)  # type: ignore[arg-type]  # nothing is started
    assert usual_steps(arena, {}, LIVE, 3) == 6 * (arena.steps() + 1)
    assert usual_steps(arena, {}, WINDOWS, 3) == sum(arena.window_steps({}))


def test_of_long_steps_only_so_many_are_made_as_show_a_growth() -> None:
    assert steps_more(40, 0.01) == (TIMES - 1) * 40
    assert 40 + steps_more(40, 0.5) == 40 + steps_more(40, 10.0) == SETTLING + memory_growth.STEPS + 10
    assert steps_more(8, 10.0) == (TIMES - 1) * 8, "never more than of short ones"
    assert steps_more(200, 10.0) == 100, "nor so few that a growth hides among the steps before"
