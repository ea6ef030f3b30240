"""The child's side of one trial: run the target under hooks, and measure slots when told to.

Started as ``python -P -m advisor.tuners.trial --spec trial.json --fd N`` for scripts, or called in a
forked process for workloads. Torch is never imported here before the target imports it.
"""

import argparse
import faulthandler
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from advisor.profiles.hooks import program, trackers
from advisor.profiles.hooks.clock import Clock, Step
from advisor.profiles.hooks.imports import after_import
from advisor.profiles.hooks.watch import Watch
from advisor.profiles.hooks.writes import Writes
from advisor.profiles.machine import read_machine
from advisor.profiles.run import Run
from advisor.tuners.channel import Channel, ChannelClosed
from advisor.tuners.compiling import Compiling
from advisor.tuners.failures import Failure, describe, describe_ours
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.spec import TrialSpec, write_json

FLAGGED_LIMIT = 10  # steps with evaluation or saves in them, before they are measured all the same


class Trial:
    """One run of the target in this process, stopped at step borders by the tuner's commands."""

    def __init__(self, spec: TrialSpec, channel: Channel, started: float) -> None:
        self._spec = spec
        self._channel = channel
        self._started = started
        self._slot: _Slot | None = None
        self._startup_s: float | None = None
        self._finished = False
        knobs = {name: KNOBS[name] for name in KNOBS}
        self.run = Run(knobs, spec.present, Refused, spec.training_dataset)
        self.run.configure(spec.config)
        self.clock = Clock(self._on_step)
        self.watch = Watch(
            self.run,
            self.clock,
            seed=spec.seed + spec.seed_offset,
            seed_offset=spec.seed_offset,
            loss_limit=max(64, spec.learning_steps),
        )
        self.watch.record_grad_norms = spec.learning_steps > 0
        self.compiling = Compiling(self._on_compile)
        self.writes = Writes(ignored=[Path(spec.folder)])

    def arm(self) -> None:
        """Install what must be in place before the target's first line."""
        self.writes.install()
        trackers.install(Path(self._spec.folder) / "scratch")
        after_import("torch", lambda module: self.watch.install())
        self.compiling.arm()

    def execute(self) -> None:
        """Run the target to its end, or until a command stops the process. Never returns."""
        target = self._spec.target
        state, failure = "ended", None
        try:
            if target.kind == "script":
                program.run_file(Path(target.name), target.args)
            elif target.kind == "module":
                program.run_module(target.name, target.args)
            else:
                self._train()
        except SystemExit as stop:
            if stop.code not in (None, 0):
                failure = Failure("user_error", f"the program ended with exit status {stop.code}")
        except BaseException as error:  # whatever the target raises is its outcome
            failure = describe(error)
        if failure is not None:
            state = "failed"
        self._finish(state, failure)

    def _train(self) -> None:
        from advisor.tuners.loop import train
        from advisor.tuners.ship import load_workload

        train(load_workload(self._spec.target), self._spec.device, self._learning_batches())

    def _learning_batches(self) -> int | None:
        if not self._spec.learning_steps:
            return None
        return 1_000_000  # the tuner stops the process after the steps it asked for

    def _on_step(self, step: Step) -> None:
        if self._startup_s is None:
            self._startup_s = time.perf_counter() - self._started
            self._channel.send(event="first_step", startup_s=self._startup_s, kind=step.kind)
            self._obey()
            return
        slot = self._slot
        if slot is None or not slot.take(step):
            return
        slot.synchronise()
        self._slot = None
        self._channel.send(event="slot", **slot.as_message(self.run))
        self._obey()

    def _obey(self) -> None:
        """Wait for the tuner's next command at a step border."""
        while self._slot is None:
            try:
                command = self._channel.receive()
            except ChannelClosed:
                os._exit(1)  # the tuner is gone; nothing may run on
            assert command is not None  # no time-out was given
            match command["do"]:
                case "slot":
                    if command.get("config") is not None:
                        self.run.configure(command["config"])
                    keep = frozenset(command["keep"])
                    self._slot = _Slot(
                        command["steps"], command["drop"], keep, command["limit_s"], self._spec.device
                    )
                    self._slot.synchronise()
                case "present":
                    self.run.settle(command["values"])
                case "facts":
                    self._channel.send(event="facts", **self._facts())
                case "stop":
                    self._finish("stopped", None)

    def _facts(self) -> dict[str, Any]:
        kind = "script" if self._spec.target.kind in ("script", "module") else "workload"
        profile = self.watch.profile(read_machine(), kind)
        return {"profile": asdict(profile), "missing_patches": self.watch.missing_patches()}

    def _finish(self, state: str, failure: Failure | None) -> None:
        """Leave the outcome, then the process: no ``finally``, ``atexit`` or last checkpoint runs."""
        if self._finished:
            os._exit(1)
        self._finished = True
        outcome = {
            "state": state,
            "failure": None if failure is None else asdict(failure),
            "applied": sorted(self.run.applied),
            "refused": dict(self.run.refused),
            "unanswered": self.run.unanswered() if self.clock.steps else [],
            "steps": self.clock.steps,
            "startup_s": self._startup_s,
            "compile": self.compiling.summary(),
            "losses": [repr(value) for value in self.watch.losses()],
            "grad_norms": [repr(value) for value in self.watch.grad_norms()],
            "peak_bytes": peak_bytes(),
            "device_peak_bytes": _device_peak(),
            "files": self.writes.files,
            "connections": self.writes.connections,
            "processes": self.writes.processes,
        }
        write_json(Path(self._spec.folder) / "outcome.json", outcome)
        try:
            self._channel.send(event="outcome", **outcome)
        except ChannelClosed:
            os._exit(1)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _on_compile(self, running: bool) -> None:
        self.clock.flag("compile")
        self._channel.send(event="phase", name="compile" if running else "steps")


class _Slot:
    """A few consecutive steps measured together; flagged ones are counted apart.

    Flags in ``keep`` do not set a step apart: a window for loaders includes the start of an epoch.
    A slot that takes longer than ``limit_s`` ends early: a candidate a hundred times slower than the
    baseline is recognised by one step.
    """

    def __init__(self, steps: int, drop: int, keep: frozenset[str], limit_s: float, device: str) -> None:
        self._wanted = steps
        self._limit_s = limit_s
        self._drop = drop
        self._keep = keep
        self._cuda = device.startswith("cuda") or (device == "auto" and _cuda_in_use())
        self._clean: list[Step] = []
        self._flagged: list[Step] = []
        self._began = time.perf_counter()
        self._load_before = _cpu_times()
        self._end_sync_ns = 0

    def take(self, step: Step) -> bool:
        """Add a step; whether the slot is complete."""
        if self._clean and step.kind != self._clean[0].kind:
            self._clean.clear()
            self._flagged.clear()
        if self._drop > 0:
            self._drop -= 1
            if self._drop == 0:
                self.synchronise()
                self._began = time.perf_counter()
                self._load_before = _cpu_times()
            return False
        (self._flagged if step.flags - self._keep else self._clean).append(step)
        if len(self._clean) >= self._wanted or len(self._flagged) >= self._wanted * 2 + FLAGGED_LIMIT:
            return True
        return bool(self._clean) and time.perf_counter() - self._began > self._limit_s

    def synchronise(self) -> None:
        """On a CUDA device: wait for it, so that times are those of the device and not of launches."""
        if self._cuda:
            import torch

            before = time.perf_counter_ns()
            torch.cuda.synchronize()
            self._end_sync_ns = time.perf_counter_ns() - before

    def as_message(self, run: Run) -> dict[str, Any]:
        """What the tuner is told of the slot; times in nanoseconds."""
        steps = self._clean or self._flagged
        wall = [step.wall_ns for step in steps]
        if self._cuda and wall:
            wall[-1] += self._end_sync_ns
        phases: dict[str, int] = {}
        flags: dict[str, int] = {}
        for step in steps:
            for name, spent in step.phases_ns.items():
                phases[name] = phases.get(name, 0) + spent
        for step in self._flagged:
            for name in step.flags:
                flags[name] = flags.get(name, 0) + 1
        own, everyone = (
            after - before for after, before in zip(_cpu_times(), self._load_before, strict=True)
        )
        return {
            "wall_ns": wall,
            "cpu_ns": [step.cpu_ns for step in steps],
            "phases_ns": phases,
            "flags": flags,
            "flagged_ns": [step.wall_ns for step in self._flagged],
            "all_flagged": not self._clean,
            "loader_samples": sum(step.loader_samples for step in steps),
            "root_samples": sum(step.root_samples for step in steps),
            "sequence": "".join(step.sequence for step in steps),
            "backwards": sum(step.backwards for step in steps),
            "kind": steps[0].kind if steps else None,
            "seconds": time.perf_counter() - self._began,
            "other_cpu_s": max(0.0, everyone - own),
            "applied": sorted(run.applied),
            "refused": dict(run.refused),
            "unanswered": run.unanswered(),
        }


def peak_bytes() -> int:
    """Highest resident memory of this process so far."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _cpu_times() -> tuple[float, float]:
    """CPU seconds used by this process tree and by the whole machine (user, nice, system, stolen)."""
    ticks = os.sysconf("SC_CLK_TCK")
    with open("/proc/stat") as stat:
        fields = [int(field) for field in stat.readline().split()[1:9]]
    busy = fields[0] + fields[1] + fields[2] + fields[7]
    return sum(_cpu_ticks(pid) for pid in _tree(os.getpid())) / ticks, busy / ticks


def _tree(pid: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # the thread has ended meanwhile
            continue
        for child in children:
            yield from _tree(int(child))


def _cpu_ticks(pid: int) -> int:
    """User and system time of a process and of its reaped children, in clock ticks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:  # it has ended meanwhile
        return 0
    return sum(int(field) for field in fields[11:15])


def _cuda_in_use() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def _device_peak() -> int | None:
    if not _cuda_in_use():
        return None
    import torch

    return int(torch.cuda.max_memory_allocated())


def serve(spec: TrialSpec, connection: socket.socket, started: float) -> None:
    """Run one trial in this process, which was made for it. Never returns."""
    channel = Channel(connection)
    try:
        stacks = (Path(spec.folder) / "stacks.txt").open("w")
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        trial = Trial(spec, channel, started)
        trial.arm()
        channel.send(event="phase", name="start", session=os.getsid(0))
    except Exception as error:  # whatever goes wrong before the target's first line is not the target's
        channel.send(event="failure", **asdict(describe_ours(error)))
        raise
    trial.execute()


def main() -> None:
    """Entry of the child of a script."""
    started = time.perf_counter()
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--fd", type=int, required=True)
    options = parser.parse_args()
    program.forget_our_folder()
    serve(TrialSpec.read(options.spec), socket.socket(fileno=options.fd), started)


if __name__ == "__main__":
    main()
