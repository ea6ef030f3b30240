"""What a program that exists on paper answers when it is looked at closely."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from advisor.profiles.facts.rates import Rates
from advisor.profiles.hooks.recorder import STEP
from advisor.tuners.trial.look_messages import (
    AttentionTimes,
    GraphShares,
    Inspect,
    Inspected,
    MeasuredRates,
    MeasureRates,
    Observe,
    Observed,
    Omit,
    Omitted,
    Probe,
    Probed,
    Record,
    Recorded,
    TimeAttention,
    TimeGraph,
)
from advisor.tuners.trial.messages import Message


class LookedAt(Protocol):
    """A process on paper."""

    @property
    def ops(self) -> Mapping[str, float]:
        """Shares of a step that its operators take."""

    def steps_ns(self, steps: int, seconds: float = 0.0, limit_s: float = ...) -> tuple[int, ...]:
        """Make so many steps, and for so long, but no longer than the limit; what each took."""

    def phases_ns(self, spent: int) -> dict[str, int]:
        """The parts of steps that took so long together."""

    def leave_out(self, part: str | None) -> None:
        """From the next step on."""


def looked_at(session: LookedAt, command: Message) -> Message:
    """What a trial answers to a command that looks at the program; its seconds pass."""
    match command:
        case Observe():
            wall_ns = session.steps_ns(command.steps, command.seconds, command.limit_s)
            spent = sum(wall_ns)
            return Observed(
                wall_ns, spent, (0,) * len(wall_ns), {}, session.phases_ns(spent), all_flagged=False,
                seconds=spent / 1e9, other_cpus=0.0, throttled=((0, 0), (0, 0)),
            )  # fmt: skip
        case Probe():
            return Probed()
        case Inspect():
            session.steps_ns(command.sampled, limit_s=command.limit_s / 2)
            return Inspected(len(session.steps_ns(command.steps, limit_s=command.limit_s)))
        case Record():
            return recorded(session, command)
        case MeasureRates():
            return MeasuredRates(Rates(threads=2))
        case TimeAttention():
            return AttentionTimes((None,) * len(command.shapes))
        case TimeGraph():
            return GraphShares(())
        case Omit():
            session.leave_out(command.part)
            return Omitted(None)
        case _:
            raise AssertionError(f"no command that looks: {command}")


def recorded(session: LookedAt, command: Record) -> Recorded:
    """A trace in which each step is its operators, one after the other."""
    wall_ns = session.steps_ns(command.steps)
    events, begin = [], 0.0
    for number, spent in enumerate(wall_ns):
        events.append(event("user_annotation", f"{STEP}{number}", begin, spent / 1e3))
        for name, share in session.ops.items():
            events.append(event("cpu_op", name, begin, share * spent / 1e3))
            begin += share * spent / 1e3
    Path(command.path).parent.mkdir(parents=True, exist_ok=True)
    Path(command.path).write_text(json.dumps({"traceEvents": events}))
    phases = tuple({"forward": spent} for spent in wall_ns)
    return Recorded(command.path, wall_ns, ((),) * len(wall_ns), phases)


def event(category: str, name: str, begin_us: float, spent_us: float) -> dict[str, Any]:
    """One of a trace."""
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": begin_us, "dur": spent_us,
        "args": {},
    }  # fmt: skip
