"""A trial whose measurements are written down: the tuner's side of it is as real as it can be.

It runs under the supervisor, obeys the commands of the session, and leaves its outcome as any trial. What
it answers follows from the configuration alone, so two studies measure the same.
"""

import argparse
import json
import math
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import injector
import msgspec

from advisor.profiles.facts.profile import Profile
from advisor.tuners.supervision.failures import Cause, Failure
from advisor.tuners.trial.channel import Channel
from advisor.tuners.trial.messages import (
    Facts,
    Failed,
    FirstStep,
    MeasureSlot,
    Phase,
    Present,
    SlotMeasured,
    Stop,
    TellFacts,
    TrialOutcome,
)
from advisor.tuners.trial.spec import TrialSpec

STEP_S = 0.02
SPEEDS = {"gc_freeze=freeze": 1.5, "gc_freeze=manual": 1.2}
CANDIDATES = "ADVISOR_TEST_CANDIDATES"  # what befalls trials that change something: a cause, "nan", "garbage"
STUCK = "stuck"  # another: it fails, and no signal ends it
ONCE = "killed-once"  # another: the first of them is killed
LASTS = "ADVISOR_TEST_LASTS"  # steps in one go under a change after which a process lacks memory
EVERY = "ADVISOR_TEST_EVERY"  # of such trials, one in so many; by default each
LOSSES = tuple(1.0 / (1 + step) for step in range(64))


def step_s(config: dict[str, Any]) -> float:
    """Seconds of a step under a configuration."""
    speed = 1.0
    for name, value in config.items():
        speed *= SPEEDS.get(f"{name}={value}", 1.0)
    return STEP_S / speed


def changes(config: Mapping[str, Any], spec: TrialSpec) -> bool:
    """Whether a process has another setting than the program's own."""
    return any(value != spec.present.get(name) for name, value in config.items())


def fate_of(spec: TrialSpec) -> str:
    """What befalls a trial; an empty text for nothing."""
    chosen = int(Path(spec.folder).name) % int(os.environ.get(EVERY, "1")) == 0
    return os.environ.get(CANDIDATES, "") if changes(spec.config, spec) and chosen else ""


def is_first(mark: Path) -> bool:
    """Whether nobody came before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class ScriptedTrial:
    """Answers the commands of one session."""

    def __init__(self, spec: TrialSpec, channel: Channel, facts: dict[str, Any]) -> None:
        self._spec = spec
        self._channel = channel
        self._facts = Facts(msgspec.convert(facts, Profile, str_keys=True), losses=LOSSES)
        self._live = dict(spec.config)
        self._steps = 1
        self._fate = fate_of(spec)
        self._lasts = float(os.environ.get(LASTS, "inf"))

    def run(self) -> None:
        """Obey until told to stop."""
        self._channel.send(Phase("start", os.getsid(0)))
        if self._fate == ONCE:
            self._fate = "killed" if is_first(Path(self._spec.folder).parent / ONCE) else ""
        if self._fate == STUCK:
            self._channel.send(Failed(Failure("timeout", "as it was written down")))
            time.sleep(3600)
        if self._fate not in ("", "nan", "garbage"):
            self._channel.send(Failed(Failure(cast(Cause, self._fate), "as it was written down")))
            return
        self._channel.send(FirstStep(0.1))
        while (command := self._channel.receive()) is not None:
            match command:
                case MeasureSlot():
                    self._live = {**self._spec.config, **(command.config or {})}
                    self._steps += command.steps + command.drop
                    if command.steps > self._lasts and changes(self._live, self._spec):
                        self._channel.send(Failed(Failure("oom_host", "no memory is left")))
                        return
                    self._channel.send(self._slot(command.steps))
                case TellFacts():
                    self._channel.send(self._facts)
                case Stop():
                    self._finish()
                    return
                case Present():
                    pass
                case _:
                    return  # it cannot be profiled

    def _slot(self, steps: int) -> SlotMeasured:
        wall = round(step_s(self._live) * 1e9)
        part = wall * steps // 4
        return SlotMeasured(
            wall_ns=(wall,) * steps, cpu_ns=wall * steps,
            phases_ns={"input_wait": part, "forward": part, "backward": part, "optimizer": part},
            loader_samples=32 * steps, root_samples=32 * steps, own_cpu_s=wall * steps / 1e9,
            applied=tuple(sorted(self._live)),
        )  # fmt: skip

    def _finish(self) -> None:
        losses = (1.0, math.nan) if self._fate == "nan" else LOSSES
        outcome = TrialOutcome(
            "stopped", applied=tuple(sorted(self._live)), steps=self._steps, startup_s=0.1, losses=losses,
            grad_norms=LOSSES, peak_bytes=2**28,
        )  # fmt: skip
        file = Path(self._spec.folder) / "outcome.json"
        if self._fate == "garbage":
            file.write_bytes(b'{"state": "stopped", "losses": [\xff')
            return
        outcome.write(file)
        self._channel.send(outcome)


def main() -> None:
    """Entry of the child."""
    injector.load()
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--facts", type=Path, required=True)
    parser.add_argument("--fd", type=int, required=True)
    options = parser.parse_args()
    channel = Channel(socket.socket(fileno=options.fd))
    ScriptedTrial(TrialSpec.read(options.spec), channel, json.loads(options.facts.read_text())).run()


if __name__ == "__main__":
    main()
