"""The child's side of one trial: run the target under hooks, and measure slots when told to.

Started as ``python -P -m advisor.tuners.trial.trial --spec trial.json --fd N`` for scripts, or called in a
forked process for workloads. Torch is never imported here before the target imports it.
"""

import argparse
import faulthandler
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from advisor.base.unit import Unit
from advisor.profiles.events import Run
from advisor.profiles.facts.machine import read_machine
from advisor.profiles.facts.profile import Profile
from advisor.profiles.hooks.imports import after_import
from advisor.profiles.hooks.loading.first_iterator import FirstIterator
from advisor.profiles.hooks.model.compilation import Compiling
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.surroundings import program, trackers
from advisor.profiles.hooks.surroundings.affinity import Affinity
from advisor.profiles.hooks.surroundings.children import Children
from advisor.profiles.hooks.surroundings.habits import Habits
from advisor.profiles.hooks.surroundings.loaded import Loaded
from advisor.profiles.hooks.surroundings.memory import peak_bytes
from advisor.profiles.hooks.surroundings.writes import Writes
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.knob import AnyKnob, Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.place import HERE
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.strategy import Strategy
from advisor.tuners.supervision.failures import Failure, describe, describe_ours, would_change
from advisor.tuners.trial.channel import Channel, ChannelClosed
from advisor.tuners.trial.messages import (
    Compiled,
    Facts,
    Failed,
    FirstStep,
    GoOn,
    MeasureSlot,
    Message,
    Phase,
    Present,
    Ready,
    Stop,
    TellFacts,
    TrialOutcome,
)
from advisor.tuners.trial.numerics import nudge
from advisor.tuners.trial.numerics.numerics_messages import KeepState, Relearn, ReleaseState
from advisor.tuners.trial.numerics.outputs_task import InputsTask, OutputsTask, asked_again
from advisor.tuners.trial.numerics.relearning import Relearning
from advisor.tuners.trial.served_messages import TakeInputs, TakeOutputs
from advisor.tuners.trial.slot import SlotTask, cuda_in_use
from advisor.tuners.trial.spec import Guard, TrialSpec
from advisor.tuners.trial.tasks import Task
from advisor.workloads.workload import Workload

if TYPE_CHECKING:
    from advisor.tuners.trial.serving import Server

SPARE = 3  # descriptors that are kept for the outcome of a program that has used up all others


class Trial:
    """One run of the target in this process, stopped at step borders by the tuner's commands."""

    def __init__(self, spec: TrialSpec, channel: Channel, started: float) -> None:
        self._spec = spec
        self._channel = channel
        self._started = started
        self._task: Task | None = None
        self._startup_s: float | None = None
        self._finished = False
        self._spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(SPARE)]
        HERE.place, HERE.config = spec.place, {**spec.present, **spec.config}
        self._strategy: Strategy | None = None
        self._server: Server | None = None
        self._batch, self._awaits_clean = "", True
        knobs: dict[str, AnyKnob] = dict(KNOBS)
        if spec.place.workers > 1 and spec.target.kind in ("script", "module") and "strategy" in spec.config:
            from advisor.tuners.trial.script_ranks import UNREAD, OwnRanks, ScriptRanks

            knobs |= UNREAD
            knobs["strategy"] = OwnRanks() if "TORCHELASTIC_RUN_ID" in os.environ else ScriptRanks()
        config = dict(spec.config)
        if spec.nudge:
            knobs[nudge.NAME], config[nudge.NAME] = nudge.Nudge(), spec.nudge
        self.run = Run(knobs, spec.present, Refused, spec.training_dataset)
        self.run.configure(config)
        self.run.serving.folder = Path(spec.folder) / "artefacts"
        self.clock = Clock(self._on_step, unit=spec.unit)
        self.compiling = Compiling(self._on_compile, lambda: self.clock.steps)
        self._relearning = Relearning(self.run, lambda: self.watch)
        self._affinity = Affinity()
        self._habits = Habits()
        self._loaded = Loaded()
        guard = spec.guard
        ours = [] if guard is None else [Path(path) for path in guard.ours]
        self.writes = Writes(
            [Path(spec.folder), *ours], None if guard is None else partial(self._guard, guard)
        )

    def _guard(self, guard: Guard, path: Path, created: bool) -> None:
        """End the trial rather than let it change a file that was there; a child of it is refused."""
        if guard.admits(path, created=created):
            return
        if os.getpid() != self.writes.process:
            raise PermissionError(would_change(path).message)
        self.writes.active = False
        self._finish("failed", would_change(path))

    @cached_property
    def watch(self) -> Watch:
        """Made when torch has been imported, which its parts need: never before the target does it."""
        spec = self._spec
        watch = Watch(
            self.run,
            self.clock,
            compiling=self.compiling,
            seed=spec.seed + spec.seed_offset,
            seed_offset=spec.seed_offset,
            loss_limit=max(64, spec.learning_steps),
            unit=spec.unit,
            between=spec.between,
        )
        watch.num_norms = max(64, spec.learning_steps) if spec.learning_steps else spec.norms
        return watch

    def arm(self) -> None:
        """Install what must be in place before the target's first line."""
        self.writes.install()
        self._affinity.install()
        self._habits.install()
        trackers.install(Path(self._spec.folder) / "scratch")
        if self._spec.target.kind in ("script", "module"):
            Children(Path(self._spec.folder), lambda: self.clock.steps == 0).install()
        after_import("torch", self._loaded.install)
        after_import("torch", lambda module: self.watch.install())
        if self._spec.waits:
            after_import("torch", lambda module: FirstIterator(self._wait_to_load).install())
        self.compiling.arm()

    def _wait_to_load(self) -> None:
        """Wait for the tuner's word before the first batch is loaded; once steps were made it is too late."""
        if self.clock.steps:
            return
        began = time.perf_counter()
        self._channel.send(Ready())
        try:
            assert isinstance(self._channel.receive(), GoOn)
        except ChannelClosed:
            os._exit(1)  # the tuner is gone, or has no more use for it
        self._started += time.perf_counter() - began

    def execute(self) -> None:
        """Run the target to its end, or until a command stops the process. Never returns."""
        target = self._spec.target
        failure = None
        try:
            if target.kind == "script":
                program.run_file(Path(target.name), target.args)
            elif target.kind == "module":
                program.run_module(target.name, target.args)
            elif self._spec.unit is Unit.REQUEST:
                self._serve()
            else:
                self._train()
        except SystemExit as stop:
            if stop.code not in (None, 0):
                failure = Failure("user_error", f"the program ended with exit status {stop.code}")
        except BaseException as error:  # whatever the target raises is its outcome
            failure = self._explained(error)
        if failure is None and isinstance(self._task, OutputsTask | InputsTask):
            self._channel.send(self._task.finish())  # there are no more requests
        self._finish("ended" if failure is None else "failed", failure)

    def _explained(self, error: BaseException) -> Failure:
        """What the exception says and, once steps were taken, what was seen of the process says of it."""
        for descriptor in self._spare:  # the program may have none left, and what follows opens files
            os.close(descriptor)
        failure = describe(error)
        if not self.clock.steps:
            return failure
        from advisor.tuners.trial.explaining import explained

        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        loader, growth = self.watch.loader_facts(), self.watch.growth.facts(frame)
        seen = Profile(read_machine(), loader=loader, growth=growth)
        return explained(failure, seen)

    def _serve(self) -> None:
        """Have the model of a workload answer requests."""
        from advisor.tuners.trial.serving import Server
        from advisor.tuners.trial.workload_transfer import load_workload

        workload, spec = load_workload(self._spec.target), self._spec
        self._server = Server(
            workload, spec.device, self.run, seed=spec.seed, whole=spec.between,
            unheard=self.watch.requests.unheard,
        )  # fmt: skip
        self._server.run()

    def _train(self) -> None:
        from advisor.tuners.trial.loop import train
        from advisor.tuners.trial.workload_transfer import load_workload

        workload, name = load_workload(self._spec.target), str(self._spec.config.get("strategy", "single"))
        if HERE.place.serves:
            self.watch.remove()  # its updates are no steps of a training loop
            STRATEGIES[name].serve(workload)
            return
        self._strategy, self._batch = STRATEGIES[name], _arithmetic(workload, STRATEGIES[name])
        try:
            train(workload, self._spec.device, self._learning_batches(), self._strategy)
        except Refused as reason:  # of the model, the same on every rank: each goes on alone
            self.run.refuse("strategy", str(reason))
            train(workload, self._spec.device, self._learning_batches())

    def _learning_batches(self) -> int | None:
        if not self._spec.learning_steps:
            return None
        return 1_000_000  # the tuner stops the process after the steps it asked for

    def _on_step(self, step: Step) -> None:
        if self._startup_s is None:
            self._startup_s = time.perf_counter() - self._started
            self._channel.send(FirstStep(self._startup_s, time.process_time()))
            self._obey()
            return
        self.watch.growth.step(step)
        task = self._task
        if task is None or not task.take(step):
            return
        self._task = None
        if isinstance(task, SlotTask):
            self._awaits_clean = not task.waited_in_vain
        self._channel.send(task.finish())
        self._obey()

    def _obey(self) -> None:
        """Wait for the tuner's next command at a step border, until one needs steps."""
        while self._task is None:
            try:
                command = self._channel.receive()
            except ChannelClosed:
                os._exit(1)  # the tuner is gone; nothing may run on
            assert command is not None  # no time-out was given
            self._task = self._do(command)
        self._task.begin()

    def _do(self, command: Message) -> "Task | None":
        """Carry out a command; the task that takes the next steps, if it asks for one."""
        match command:
            case MeasureSlot():
                return self._slot_task(command)
            case Present():
                self.run.settle(command.values)
            case TellFacts():
                self._channel.send(self._facts())
            case Stop():
                self._finish("stopped", None)
            case TakeOutputs() if self._server is not None:
                self._channel.send(self._server.take(command))
            case TakeOutputs(inputs=""):
                return OutputsTask(self.watch, command, self.run.serving.reference)
            case TakeOutputs():
                self._channel.send(asked_again(self.watch, command, self.run.serving.reference))
            case TakeInputs():
                return InputsTask(self.watch, command)
            case KeepState() | Relearn() | ReleaseState():
                return self._relearning.carry_out(command)
            case _:
                from advisor.tuners.trial.diagnosing import carry_out

                return carry_out(command, self.watch, self.clock, self._channel)
        return None

    def _slot_task(self, command: MeasureSlot) -> SlotTask:
        if command.config is not None:
            self.run.configure(command.config)
            self.watch.follow()
        return SlotTask(
            self.run, command.steps, command.drop, frozenset(command.keep), command.limit_s,
            self._spec.device, exact=command.exact, awaits_clean=self._awaits_clean,
            started_s=self.watch.loader_start_s,
        )  # fmt: skip

    def _facts(self) -> Facts:
        kind = "script" if self._spec.target.kind in ("script", "module") else "workload"
        host = replace(self._affinity.facts(), habits=self._habits.facts())
        profile = replace(self.watch.profile(read_machine(), kind), host=host)
        if self._server is not None and profile.run is not None:
            profile = replace(profile, run=replace(profile.run, **self._server.facts()))
        return Facts(profile, tuple(self.watch.losses()))

    def _finish(self, state: Literal["ended", "stopped", "failed"], failure: Failure | None) -> None:
        """Leave the outcome, then the process: no ``finally``, ``atexit`` or last checkpoint runs."""
        if self._finished:
            os._exit(1)
        self._finished = True
        imported = "torch" in sys.modules  # a program may end before it comes to that
        outcome = TrialOutcome(
            state=state,
            failure=failure,
            applied=tuple(sorted(self.run.applied)),
            refused=dict(self.run.refused),
            unanswered=tuple(self.run.unanswered()) if self.clock.steps else (),
            steps=self.clock.steps,
            startup_s=self._startup_s,
            compile=msgspec.convert(self.compiling.summary(), Compiled, strict=False),
            losses=tuple(self.watch.losses()) if imported else (),
            grad_norms=tuple(self.watch.grad_norms()) if imported else (),
            peak_bytes=peak_bytes(),
            device_peak_bytes=_device_peak(),
            files=tuple(self.writes.files),
            connections=tuple(self.writes.connections),
            processes=tuple(self.writes.processes),
            loaded=tuple(self._loaded.files) if not self.clock.steps else (),
            report=self._report(),
        )
        outcome.write(Path(self._spec.folder) / "outcome.json")
        try:
            self._channel.send(outcome)
        except ChannelClosed:
            os._exit(1)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _report(self) -> dict[str, Any]:
        """What the strategy knows at the end, or why it cannot tell: a server may be gone."""
        if self._strategy is None or HERE.place.processes == 1:
            return {}
        try:
            return {"global_batch": self._batch, **self._strategy.report()}
        except Exception as error:  # the trial itself has gone well
            return {"global_batch": self._batch, "error": f"{type(error).__name__}: {error}"}

    def _on_compile(self, running: bool) -> None:
        self.clock.flag("compile")
        self._channel.send(Phase("compile" if running else "steps"))


def _arithmetic(workload: Workload, strategy: Strategy) -> str:
    """``64 samples x 2 ranks x 4 micro-batches = 512``: how the batch of an update is kept."""
    ranks, parts = HERE.place.workers, workload.accumulation
    size = int(HERE.config.get("batch_size", workload.batch_size))
    factors = [f"{size // ranks} samples", f"{ranks} ranks"] if strategy.splits_batch else [f"{size} samples"]
    factors += [f"{parts} micro-batches"] if parts > 1 else []
    whole = "" if strategy.splits_batch else ", all of them on every rank"
    return f"{' x '.join(factors)} = {size * parts}{whole}" if len(factors) > 1 else f"{size} samples{whole}"


def _device_peak() -> int | None:
    if not cuda_in_use():
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
        channel.send(Phase("start", os.getsid(0)))
    except Exception as error:  # whatever goes wrong before the target's first line is not the target's
        channel.send(Failed(describe_ours(error)))
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
