"""Several processes as one trial: commanded together, and the one at fault is named."""

import math
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised import MARK, marked, until

from advisor.tuners.launching.launch import Launcher, places
from advisor.tuners.launching.rank_answers import merged, together
from advisor.tuners.launching.rank_group import RankGroup, second_hand
from advisor.tuners.launching.session import Session
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.supervision.limits import Limits
from advisor.tuners.trial.messages import SlotMeasured, TrialOutcome
from advisor.tuners.trial.spec import Target, TrialSpec

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl")]

ALONE: dict[str, int | str] = {"strategy": "single", "ranks": 1}
TWO: dict[str, int | str] = {"strategy": "ddp", "ranks": 2}
WORKLOAD = """
import os, signal, time
import torch
import torch.distributed as dist
from advisor.tuners.place import HERE
from advisor.workloads.workload import Workload

torch.manual_seed(0)
DATA = torch.utils.data.TensorDataset(torch.randn(256, 16), torch.randn(256, 4))
STEPS = [0]

def step(model, batch):
    rank = dist.get_rank() if dist.is_initialized() else None
    STEPS[0] += 1
    if rank == 1 and STEPS[0] == 8:
        with open("at_fault") as file:
            exec(file.read())
    inputs, target = batch
    return torch.nn.functional.mse_loss(model(inputs), target)

def hang():
    time.sleep(600)

def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

def optimizer(parameters):
    if HERE.place.serves:
        with open("server.pid", "w") as file:
            file.write(str(os.getpid()))
    return torch.optim.SGD(parameters, lr=0.1)

workload = Workload(model=model, dataset=lambda: DATA, step=step, batch_size=16, optimizer=optimizer)
"""


@pytest.fixture(scope="module")
def mark() -> str:
    """What marks every process that these tests start."""
    return uuid.uuid4().hex


@pytest.fixture(scope="module")
def warm_launcher(tmp_path_factory: pytest.TempPathFactory, mark: str) -> Iterator[Launcher]:
    """One warm process serves all tests; nothing of it may be left."""
    folder = tmp_path_factory.mktemp("group")
    (folder / "train.py").write_text(WORKLOAD)
    (folder / "study").mkdir()
    target = Target("workload", str(folder / "train.py"), cwd=str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv(MARK, mark)
        with Launcher(target, folder / "study", device="cpu") as launcher:
            yield launcher
    assert marked(mark) == []


@pytest.fixture
def launcher(warm_launcher: Launcher, mark: str) -> Iterator[Launcher]:
    """The launcher for one test, of whose trials no process may be left."""
    warm_launcher.limits = Limits(start_s=60, step_s=0.001)
    at_fault(warm_launcher, "pass")
    before = {process.pid for process in marked(mark)}
    yield warm_launcher
    until(lambda: {process.pid for process in marked(mark)} <= before)


def at_fault(launcher: Launcher, code: str) -> None:
    """What rank 1 does in its eighth step."""
    (Path(launcher.target.cwd) / "at_fault").write_text(code)


@pytest.fixture(scope="module")
def losses_alone(warm_launcher: Launcher) -> tuple[float, ...]:
    warm_launcher.limits = Limits(start_s=60, step_s=0.001)
    return learned(warm_launcher, ALONE, 50)


def learned(launcher: Launcher, config: dict[str, int | str], steps: int) -> tuple[float, ...]:
    session = launcher.start(1, config, ALONE, learning_steps=steps)
    session.first_step()
    session.slot(steps - 1, drop=0)
    return session.stop().losses[:steps]


def test_two_ranks_run_slots_together_and_stop(launcher: Launcher) -> None:
    launches = launcher.launches
    group = launcher.start(1, TWO, ALONE)
    assert isinstance(group, RankGroup)
    assert group.first_step() > 0
    slot = group.slot(6, drop=2)
    assert len(slot.step_s) == 6 and slot.work == 16
    assert group.last.applied == ("ranks", "strategy") and not group.last.refused
    outcome = group.stop()
    assert outcome.state == "stopped" and len(outcome.ranks) == 2
    assert outcome.ranks[0]["global_batch"] == "8 samples x 2 ranks = 16"
    assert not group.alive and launcher.launches == launches + 1


@pytest.mark.parametrize(
    "strategy",
    [
        "ddp",
        "parameter_server",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("pipeline", "zero", "fsdp", "tensor_parallel")
        ),
    ],
)
def test_losses_of_two_ranks_are_those_of_one_process(
    launcher: Launcher, losses_alone: tuple[float, ...], strategy: str
) -> None:
    two = learned(launcher, {**TWO, "strategy": strategy}, 50)
    assert len(losses_alone) == len(two) == 50
    assert two == pytest.approx(losses_alone, rel=1e-4)
    assert len(set(losses_alone)) == 50  # something is learnt


@pytest.mark.parametrize(
    ("code", "cause", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "oom_host", "rank 1: "),  # the likeliest sender
        ("raise ValueError('no such label')", "user_error", "rank 1: ValueError: no such label"),
        ("raise torch.OutOfMemoryError('out of memory')", "oom_device", "rank 1: "),
        ("os._exit(7)", "user_error", "rank 1: "),
    ],
)
def test_the_rank_at_fault_is_named(launcher: Launcher, code: str, cause: str, message: str) -> None:
    at_fault(launcher, code)
    group = launcher.start(1, TWO, ALONE)
    group.first_step()
    with pytest.raises(TrialFailed) as raised:
        group.slot(30)
    assert (raised.value.failure.cause, raised.value.failure.message[: len(message)]) == (cause, message)
    assert not group.alive
    goes_on(launcher)


def goes_on(launcher: Launcher) -> None:
    """A process alone can be measured, as the next of a search."""
    session = launcher.start(2, ALONE, ALONE)
    assert isinstance(session, Session)
    assert session.first_step() > 0
    session.stop()


def test_a_rank_that_hangs_is_named_with_its_place(launcher: Launcher) -> None:
    at_fault(launcher, "hang()")
    group = launcher.start(1, TWO, ALONE)
    group.first_step()
    launcher.limits.start_s = 5
    launcher.limits.step_s = None
    launcher.limits.for_steps = lambda steps: 5.0  # type: ignore[method-assign]
    with pytest.raises(TrialFailed) as raised:
        group.slot(30)
    failure = raised.value.failure
    line = WORKLOAD.splitlines().index("    time.sleep(600)") + 1
    assert failure.cause == "hang_collective"
    assert failure.message.startswith("rank 1: the others waited for it")
    assert f"train.py:{line}" in failure.message


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_a_server_that_is_killed_is_named_and_the_search_goes_on(launcher: Launcher) -> None:
    at_fault(launcher, "os.kill(int(open('server.pid').read()), signal.SIGKILL)")
    group = launcher.start(1, {**TWO, "strategy": "parameter_server"}, ALONE)
    group.first_step()
    with pytest.raises(TrialFailed) as raised:
        group.slot(30)
    assert "server 0" in raised.value.failure.message
    assert not group.alive
    goes_on(launcher)


def test_ranks_that_share_each_batch_have_all_of_its_samples(launcher: Launcher) -> None:
    group = launcher.start(1, {**TWO, "strategy": "tensor_parallel"}, ALONE)
    group.first_step()
    assert group.stop().ranks[0]["global_batch"] == "16 samples, all of them on every rank"


def test_cores_are_divided_and_servers_share_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3, 4})
    spec = TrialSpec(1, Target("workload", "w.py"), str(tmp_path), device="cpu")
    workers = places(spec, 2, 1)
    assert [place.cpus for place in workers] == [(0, 1), (2, 3), ()]
    assert [place.serves for place in workers] == [False, False, True]
    assert len({place.rendezvous for place in workers}) == 1


def test_ranks_stand_on_the_gpus_that_there_are(tmp_path: Path) -> None:
    spec = TrialSpec(1, Target("script", "train.py"), str(tmp_path))
    assert [place.device for place in places(spec, 2, 0, 2)] == ["cuda:0", "cuda:1"]
    assert [place.device for place in places(spec, 2, 0, 0)] == ["cpu", "cpu"]


@pytest.mark.parametrize(("execution", "seconds"), [("eager", 60.0), ("compile", 300.0)])
def test_ranks_wait_for_each_other_as_long_as_compiling_may_take(
    execution: str, seconds: float, tmp_path: Path
) -> None:
    spec = TrialSpec(
        1, Target("workload", "w.py"), str(tmp_path), device="cpu", config={"execution": execution}
    )
    assert {place.timeout_s for place in places(spec, 2, 0)} == {seconds}


def a_message(
    *wall_ns: int, other_cpu_s: float = 1.5, own_cpu_s: float = 1.0, refused: str = ""
) -> SlotMeasured:
    return SlotMeasured(
        wall_ns or (100, 100), 150, {"forward": 60}, loader_samples=8, root_samples=8,
        other_cpu_s=other_cpu_s, own_cpu_s=own_cpu_s, refused={"amp": refused} if refused else {},
    )  # fmt: skip


def test_slots_of_ranks_add_up() -> None:
    whole = merged([a_message(), a_message(other_cpu_s=1.4, own_cpu_s=1.1)], splits_batch=True)
    assert whole.wall_ns == (100, 100) and whole.loader_samples == 16 and whole.cpu_ns == 300
    assert whole.other_cpu_s == pytest.approx(0.4)  # 2.5 of the machine, 2.1 of the two ranks


def test_other_load_is_that_of_the_machine_with_most_of_it() -> None:
    quiet, busy = a_message(other_cpu_s=0.0, own_cpu_s=1.0), a_message(other_cpu_s=0.5, own_cpu_s=1.0)
    whole = merged([quiet, busy], splits_batch=True, hosts=["", "far"])
    assert (whole.other_cpu_s, whole.own_cpu_s) == (0.5, 2.0)


def test_ranks_at_their_own_pace_give_the_rate_of_both() -> None:
    whole = merged([a_message(100), a_message(300)], splits_batch=True)
    assert whole.wall_ns == (150,)  # 1/100 + 1/300 steps per ns, for two steps


def test_whole_batches_are_counted_once() -> None:
    whole = merged([a_message(), a_message()], splits_batch=False)
    assert whole.loader_samples == 8


def test_what_several_ranks_refuse_is_told_in_the_words_of_the_first() -> None:
    whole = merged([a_message(), a_message(refused="one"), a_message(refused="two")], splits_batch=True)
    assert whole.refused == {"amp": "one"} and len(whole.ranks) == 3


def an_outcome(losses: list[float], norms: list[float]) -> TrialOutcome:
    return TrialOutcome(
        "stopped", losses=tuple(losses), grad_norms=tuple(norms), peak_bytes=10,
        report={"bytes_per_step": 4},
    )  # fmt: skip


def test_losses_are_averaged_or_taken_from_the_rank_that_has_them() -> None:
    outcomes = [an_outcome([1.0, 2.0], [1.0]), an_outcome([3.0, math.nan], [1.0])]
    mean = together(outcomes, "mean")
    assert mean.losses[0] == 2.0 and math.isnan(mean.losses[1])
    assert together(outcomes, "last").losses is outcomes[1].losses
    assert together(outcomes, "first").losses == (1.0, 2.0)
    assert mean.peak_bytes == 20 and [rank["bytes_per_step"] for rank in mean.ranks] == [4, 4]


def test_gradient_norms_that_differ_between_ranks_are_of_parts_and_left_out() -> None:
    assert together([an_outcome([], [1.0]), an_outcome([], [1.0])], "mean").grad_norms == (1.0,)
    assert together([an_outcome([], [1.0]), an_outcome([], [1.2])], "mean").grad_norms == ()


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Failure("user_error", "RuntimeError: [gloo/transport] Connection closed by peer [::1]:4"), True),
        (Failure("user_error", "DistBackendError: NCCL communicator was aborted"), True),
        (Failure("user_error", "ValueError: no such label"), False),
        (Failure("oom_host", "connection closed by peer"), False),
    ],
)
def test_what_a_rank_says_of_another_is_told_from_its_own_fault(failure: Failure, told: bool) -> None:
    assert second_hand(failure) is told
