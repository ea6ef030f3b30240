"""The largest safe batch, over runs whose memory is known, and over a real one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_gpu_profile, a_loader, a_profile, an_optimizer

from advisor.profiles.facts.profile import MemoryUse, Profile, RunFacts
from advisor.profiles.hooks.surroundings.memory import free_host_bytes
from advisor.tuners.comparing.batches.safe_batch import SafeBatch, largest_safe_batch
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.gate import learn
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space, build_space
from advisor.tuners.supervision.failures import Cause, Failure, TrialFailed
from advisor.tuners.trial.messages import Slot, TrialOutcome
from advisor.tuners.trial.spec import Target

MB = 2**20


@dataclass
class Machine:
    """Takes the place of an arena: a run needs ``fixed`` and ``each`` for every sample; no process starts.

    ``fails_from`` is the smallest batch that fails, with ``cause``; ``ends_after`` the steps of a run.
    """

    fixed: int = 1000 * MB
    each: int = 10 * MB
    fails_from: int | None = None
    cause: Cause = "oom_device"
    on_device: bool = True
    ends_after: int | None = None
    flags: tuple[tuple[str, int], ...] = ()
    run_s: float = 1.0
    step_s: float = 0.001
    period: int = 1
    now: float = 0.0
    started: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    configs: list[dict[str, Value]] = field(default_factory=list)

    def start(self, config: Mapping[str, Value], number: int) -> "Run":
        self.configs.append(dict(config))
        self.started.append(int(config["batch_size"]))
        self.now += self.run_s
        return Run(self, self.started[-1])

    def needs(self, batch: int) -> int:
        return self.fixed + self.each * batch

    def clock(self) -> float:
        return self.now


@dataclass
class Run:
    machine: Machine
    batch: int

    def window(self, steps: int, *, drop: int, limit_s: float) -> Slot:
        self.machine.steps.append(steps)
        failing = self.machine.fails_from
        if failing is not None and self.batch >= failing:
            raise TrialFailed(Failure(self.machine.cause, "no"))
        if self.machine.ends_after is not None:
            raise SessionEnded(self.outcome(self.machine.ends_after))
        return Slot((0.1,) * steps, flags=self.machine.flags)

    def stop(self) -> TrialOutcome:
        return self.outcome(self.machine.steps[-1] + 1)

    def kill(self) -> None:
        return None

    def outcome(self, steps: int) -> TrialOutcome:
        needed = self.machine.needs(self.batch)
        host = 100 * MB if self.machine.on_device else needed
        on_device = needed if self.machine.on_device else None
        return TrialOutcome("stopped", steps=steps, peak_bytes=host, device_peak_bytes=on_device)


def on_a_device(**facts: Any) -> Profile:
    """What a run with 32 samples on such a machine shows."""
    memory = MemoryUse(
        host_peak_bytes=100 * MB, device_peak_bytes=1320 * MB, device_total_bytes=11_000 * MB,
        parameter_bytes=100 * MB, gradient_bytes=100 * MB, optimizer_bytes=200 * MB,
        activation_bytes=920 * MB,
    )  # fmt: skip
    defaults = {"memory": memory, "loader": a_loader(dataset_length=10**6)}
    return a_gpu_profile(**{**defaults, **facts})


def on_the_host(**memory: Any) -> Profile:
    facts = MemoryUse(host_peak_bytes=332 * MB, parameter_bytes=MB, gradient_bytes=MB, optimizer_bytes=2 * MB)
    optimizers = (an_optimizer(foreach=False),)
    loader = a_loader(dataset_length=10**6)
    return a_profile(loader=loader, memory=replace(facts, **memory), optimizers=optimizers)


def the_largest(
    machine: Machine, profile: Profile, limit: int = 10_000 * MB, **options: Any
) -> SafeBatch | None:
    present = Configuration({"batch_size": 32, **options.pop("present", {})})
    choices: dict[str, list[Value]] = {"batch_size": [32, 64]}
    if "lr_scaling" in present:
        choices["lr_scaling"] = ["none", "sqrt"]
    space = Space(present, present, choices, [], profile)
    options = {"max_batch": None, "deadline": 10_000.0, "free_bytes": lambda: 10**6 * MB, **options}
    return largest_safe_batch(
        machine,  # type: ignore[arg-type]  # scripted
        space,
        profile,
        limit,
        say=lambda text: None,
        clock=machine.clock,
        **options,
    )


def found(machine: Machine, profile: Profile, **options: Any) -> SafeBatch:
    safe = the_largest(machine, profile, **options)
    assert safe is not None
    return safe


def test_the_batch_is_doubled_until_one_is_too_much() -> None:
    machine = Machine()
    safe = found(machine, on_a_device())
    assert machine.started == [32, 64, 128, 256, 512, 1024]
    assert (safe.batch_size, safe.limited_by) == (512, "memory")
    assert safe.peak_bytes == machine.needs(512) <= safe.limit_bytes < machine.needs(1024)
    assert [probe.batch_size for probe in safe.probes] == machine.started
    assert safe.sentence.startswith("a batch of 512 ran with a peak of 6120 of 10000 MiB; twice as many")


def test_runs_are_long_enough_for_the_state_of_the_optimizer() -> None:
    machine = Machine(period=7)
    safe = found(machine, on_a_device())
    assert min(probe.steps for probe in safe.probes) > 7


def test_what_is_out_of_memory_ends_it() -> None:
    machine = Machine(fails_from=200)
    safe = found(machine, on_a_device())
    assert machine.started == [32, 64, 128, 256]
    assert (safe.batch_size, safe.limited_by, safe.probes[-1].cause) == (128, "memory", "oom_device")


def test_a_limit_of_the_user_is_run_itself_and_never_exceeded() -> None:
    machine = Machine()
    safe = found(machine, on_a_device(), max_batch=100)
    assert (safe.batch_size, safe.limited_by, max(machine.started)) == (100, "max_batch", 100)
    assert "--max-batch limits it" in safe.sentence


def test_a_limit_below_the_present_batch_is_run_instead_of_it() -> None:
    machine = Machine()
    assert found(machine, on_a_device(), max_batch=20).batch_size == 20
    assert machine.started == [20]


def test_no_batch_has_more_samples_than_the_dataset() -> None:
    machine = Machine()
    safe = found(machine, on_a_device(loader=a_loader(dataset_length=201)))
    assert (safe.batch_size, safe.limited_by, max(machine.started)) == (201, "dataset", 201)


def test_where_the_present_batch_does_not_fit_there_is_no_safe_batch() -> None:
    machine = Machine(fails_from=20)
    assert the_largest(machine, on_a_device()) is None
    assert machine.started == [32]


def test_another_failure_ends_it_without_a_claim_about_memory() -> None:
    machine = Machine(fails_from=100, cause="user_error")
    safe = found(machine, on_a_device())
    assert (safe.batch_size, safe.limited_by, machine.started) == (64, "failure", [32, 64, 128])
    assert "a larger one failed: user_error" in safe.sentence


def test_on_the_host_no_run_comes_near_the_free_memory() -> None:
    machine = Machine(fixed=300 * MB, each=MB, on_device=False)
    safe = found(machine, on_the_host(), free_bytes=lambda: 2000 * MB)
    assert (safe.batch_size, safe.limited_by) == (512, "caution")
    assert 2 * machine.needs(512) > 0.6 * 2000 * MB >= 2 * machine.needs(256)


def test_on_the_host_a_limit_far_below_free_memory_is_reached_by_real_runs() -> None:
    machine = Machine(fixed=300 * MB, each=MB, on_device=False)
    safe = found(machine, on_the_host(), limit=600 * MB)
    assert (safe.batch_size, safe.limited_by, machine.started[-1]) == (256, "memory", 512)


def test_no_run_begins_that_may_end_after_the_deadline() -> None:
    machine = Machine(run_s=10.0)
    safe = found(machine, on_a_device(), deadline=25.0)
    assert (machine.started, safe.batch_size, safe.limited_by) == ([32], 32, "budget")
    assert the_largest(Machine(now=26.0), on_a_device(), deadline=25.0) is None


def test_steps_that_would_take_too_long_are_not_begun() -> None:
    machine = Machine(step_s=1.0)
    safe = found(machine, on_a_device())
    assert (machine.started, safe.limited_by) == ([32, 64, 128], "budget")


def test_a_step_that_hangs_ends_it() -> None:
    machine = Machine(fails_from=200, cause="timeout")
    safe = found(machine, on_a_device())
    assert (machine.started[-1], safe.batch_size, safe.limited_by) == (256, 128, "budget")


def test_an_evaluation_that_the_baseline_made_is_part_of_the_peak() -> None:
    profile = on_a_device(run=RunFacts(evaluations=3, evaluation_every=50.0))
    assert profile.memory is not None
    profile = replace(profile, memory=replace(profile.memory, device_peak_bytes=2000 * MB))
    machine = Machine()
    assert found(machine, profile).probes[0].peak_bytes == 2000 * MB
    assert machine.steps[0] == 51
    reached = found(Machine(flags=(("evaluation", 1),)), profile)
    assert reached.probes[0].peak_bytes == 1320 * MB


def test_where_shapes_vary_the_largest_of_the_long_run_counts() -> None:
    profile = on_a_device(loader=a_loader(dataset_length=10**6, shapes_vary=True))
    assert profile.memory is not None
    profile = replace(profile, memory=replace(profile.memory, device_peak_bytes=1980 * MB))
    machine = Machine()
    assert [probe.peak_bytes for probe in found(machine, profile).probes[:3]] == [
        1980 * MB, 1980 * MB, machine.needs(128)
    ]  # fmt: skip
    assert min(machine.steps) == 32


def test_a_program_that_ends_before_its_second_step_has_not_run() -> None:
    assert the_largest(Machine(ends_after=1), on_a_device()) is None
    assert found(Machine(ends_after=2), on_a_device()).probes[0].steps == 2


def test_other_settings_are_those_asked_for_and_the_rate_follows_the_batch() -> None:
    machine = Machine()
    base: dict[str, Value] = {"amp": "bf16", "batch_size": 999, "lr_scaling": "linear"}
    present: dict[str, Value] = {"lr_scaling": "none"}
    found(machine, on_a_device(), base=base, present=present, max_batch=64)
    assert [config["amp"] for config in machine.configs] == ["bf16", "bf16"]
    assert [config["lr_scaling"] for config in machine.configs] == ["none", "sqrt"]
    assert machine.started == [32, 64]


def test_where_the_batch_cannot_be_set_nothing_is_run() -> None:
    machine = Machine()
    space = Space(Configuration({}), Configuration({}), {}, [], on_a_device())
    arena: Any = machine
    assert largest_safe_batch(arena, space, on_a_device(), 10**9, None, 1e9, print) is None
    assert machine.started == []


def test_free_memory_is_below_what_the_machine_has() -> None:
    import psutil

    assert 0 < free_host_bytes() < psutil.virtual_memory().total


WIDE = """
import torch
from advisor.workloads.workload import Workload
from advisor.tuners.space.configuration import Configuration

class Items(torch.utils.data.Dataset):
    def __len__(self): return 4096
    def __getitem__(self, index): return torch.ones(8), torch.ones(1)

class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 65536)
    def forward(self, x):
        return self.inner(x).relu().mean(1, keepdim=True)

workload = Workload(
    model=Wide, dataset=Items, loss=torch.nn.functional.mse_loss,
    optimizer=lambda parameters: torch.optim.AdamW(parameters), batch_size=32,
)
"""


@pytest.mark.long
@pytest.mark.usefixtures("no_process_remains")
def test_a_real_workload_gets_a_batch_that_fits_where_twice_of_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "wide.py").write_text(WIDE)
    (tmp_path / "study").mkdir()
    target = Target("workload", str(tmp_path / "wide.py"), cwd=str(tmp_path))
    with Launcher(target, tmp_path / "study", device="cpu") as launcher:
        session = launcher.start(0, {}, {})
        session.first_step()
        session.slot(3)
        profile = session.facts().profile
        session.stop()
        space = build_space(KNOBS, profile, named={"batch_size": None, "lr_scaling": None})
        arena = Arena(launcher, KNOBS, space.own, training_dataset=0, step_s=0.02)
        assert profile.memory is not None
        limit = profile.memory.host_peak_bytes + 160 * MB
        safe = largest_safe_batch(arena, space, profile, limit, None, float("inf"), print)
        assert safe is not None
        assert safe.limited_by == "memory"
        assert safe.batch_size >= 64 and safe.peak_bytes <= limit
        twice = space.complete({"batch_size": 2 * safe.batch_size})
        assert learn(arena, twice, steps=3).peak_bytes > limit
