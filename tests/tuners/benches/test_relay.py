"""A process under a relay, over pipes: lines, the end, silence, and what is left."""

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from advisor.tuners.benches import relayed_line
from advisor.tuners.benches.engine import BenchLost
from advisor.tuners.benches.node_environment import environment_on_node, hide_ray
from advisor.tuners.benches.pipe import PipeLine
from advisor.tuners.benches.relayed_line import RelayedLine
from advisor.tuners.supervision.process_tree import children, living_since

RELAY = [sys.executable, "-P", "-m", "advisor.tuners.benches.relay"]
OFTEN = [
    sys.executable,
    "-P",
    "-c",
    "from advisor.tuners.benches import relay; relay.BEAT_S = 0.1; raise SystemExit(relay.main())",
]
ECHO = "import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"
CHILD = """
import subprocess
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
"""
WAIT_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_remains")]


def relayed(program: str, log: Path, end_s: float = WAIT_S) -> tuple[PipeLine, RelayedLine]:
    """A Python program under a relay, and the line to the relay."""
    with log.open("a") as errors:
        pipe = PipeLine("n1", RELAY, errors=errors, end_s=end_s)
    return pipe, RelayedLine(pipe, [sys.executable, "-c", program], log)


def until_gone(pid: int) -> None:
    """Wait for the end of a process."""
    gives_up = time.monotonic() + WAIT_S
    while living_since(pid) is not None:
        assert time.monotonic() < gives_up, f"{pid} is still there"
        time.sleep(0.02)


def test_lines_go_both_ways_however_long_they_are(tmp_path: Path) -> None:
    _, line = relayed(ECHO, tmp_path / "log")
    sent = ["ab", "", "x" * 3_000_000 + "y", "äé"]
    for text in sent:
        line.send(text)
    assert [line.receive(WAIT_S) for _ in sent] == [text[::-1] for text in sent]
    assert line.receive(0.0) is None
    line.close()
    line.close()


def test_the_end_of_the_process_is_told_after_its_last_line_with_its_last_words(tmp_path: Path) -> None:
    _, line = relayed("import sys; print('done'); sys.exit('no luck')", tmp_path / "log")
    assert line.receive(WAIT_S) == "done"
    with pytest.raises(BenchLost, match="it ended with exit status 1: no luck"):
        line.receive(WAIT_S)
    line.close()


@pytest.mark.parametrize("ended_by", ["closing", "the relay", "the process"])
def test_nothing_is_left_whoever_goes_first(tmp_path: Path, ended_by: str) -> None:
    pipe, line = relayed(CHILD + "input()", tmp_path / "log")
    said = line.receive(WAIT_S)
    assert said is not None
    (process,) = children(pipe.pid)
    if ended_by == "closing":
        line.close()
    elif ended_by == "the process":
        os.kill(process, signal.SIGKILL)
        with pytest.raises(BenchLost, match="killed by signal 9"):
            line.receive(WAIT_S)
    else:
        os.kill(pipe.pid, signal.SIGTERM)
        with pytest.raises(BenchLost):
            line.receive(WAIT_S)
    until_gone(int(said))
    line.close()
    until_gone(process)


def test_what_closes_its_output_late_is_not_waited_for(tmp_path: Path) -> None:
    _, line = relayed(CHILD, tmp_path / "log")
    said = line.receive(WAIT_S)
    assert said is not None
    with pytest.raises(BenchLost, match="exit status 0"):
        line.receive(WAIT_S)
    until_gone(int(said))
    line.close()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/no/such/python", "-c", "1"], "/no/such/python is not there; the same Python"),
        ([sys.executable, "-c", "raise SystemExit(7)"], "exit status 7"),
    ],
)
def test_what_cannot_start_is_told_with_the_reason(tmp_path: Path, command: list[str], why: str) -> None:
    with (
        pytest.raises(BenchLost, match=why),
        closing(RelayedLine(PipeLine("n1", RELAY, end_s=WAIT_S), command, tmp_path / "log")) as line,
    ):
        line.receive(WAIT_S)


def test_a_folder_that_a_node_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    pipe = PipeLine("n1", RELAY, end_s=WAIT_S)
    monkeypatch.chdir(folder)
    folder.rmdir()
    monkeypatch.setattr(os, "getcwd", lambda: str(folder))
    with pytest.raises(BenchLost, match="gone is not there"):
        RelayedLine(pipe, [sys.executable, "-c", "1"], tmp_path / "log")


def test_silence_is_a_loss_and_a_stopped_node_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relayed_line, "SILENT_S", 3.0)
    pipe = PipeLine("n1", OFTEN, end_s=1.0)  # a stopped one never ends by itself
    line = RelayedLine(pipe, [sys.executable, "-c", ECHO], tmp_path / "log")
    began = time.monotonic()
    assert line.receive(4.0) is None  # signs of life come meanwhile
    assert time.monotonic() - began > 3.5
    (process,) = children(pipe.pid)
    os.kill(pipe.pid, signal.SIGSTOP)
    with pytest.raises(BenchLost, match="nothing was heard of it for 3 s"):
        line.receive(WAIT_S)
    line.close()
    until_gone(process)


def test_errors_of_the_process_are_in_the_log_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    _, line = relayed("import sys; print('careful', file=sys.stderr); print('{}')", log)
    assert line.receive(WAIT_S) == "{}"
    with pytest.raises(BenchLost):
        line.receive(WAIT_S)
    line.close()
    assert log.read_text() == "careful\n"
    assert capfd.readouterr() == ("", "")


def test_the_environment_is_the_tuners_but_for_what_is_the_nodes() -> None:
    tuner = {
        "OMP_NUM_THREADS": "4",
        "CUDA_VISIBLE_DEVICES": "0",
        "SLURM_PROCID": "0",
        "A": "1",
        "HOSTNAME": "n1",
    }
    node = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "2,3", "SLURM_STEP_ID": "7", "HOSTNAME": "n2"}
    assert environment_on_node(tuner, node) == {
        "OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "2,3", "SLURM_PROCID": "0", "A": "1",
        "HOSTNAME": "n2",
    }  # fmt: skip


def test_what_is_rays_is_taken_out_of_an_environment() -> None:
    environment = {
        "RAY_AUTH_TOKEN": "secret",
        "RAY_ADDRESS": "a:1",
        "PYTHONBREAKPOINT": "ray.util.rpdb.set_trace",
    }
    own = {"OMP_NUM_THREADS": "2", "PYTHONPATH": "/x"}
    together = {**environment, **own}
    assert hide_ray(together) == environment
    assert together == own


def test_threads_that_ray_set_for_a_job_are_taken_out_and_those_of_the_user_are_not() -> None:
    job = {"RAY_RAYLET_PID": str(os.getpid()), "OMP_NUM_THREADS": "1"}
    started_with = Path(f"/proc/{os.getpid()}/environ").read_bytes().split(b"\0")
    if any(each.startswith(b"OMP_NUM_THREADS=") for each in started_with):
        together = dict(job)
        hide_ray(together)
        assert together == {"OMP_NUM_THREADS": "1"}  # the node has it
    else:
        together = dict(job)
        hide_ray(together)
        assert together == {}
    asked = {**job, "RAY_JOB_CONFIG_JSON_ENV_VAR": '{"runtime_env": {"env_vars": {"OMP_NUM_THREADS": "1"}}}'}
    hide_ray(asked)
    assert asked == {"OMP_NUM_THREADS": "1"}
