"""Commands of a trial that look at the run instead of changing it."""

from pathlib import Path

from advisor.profiles.hooks.recorder import can_mark
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.trial.channel import Channel
from advisor.tuners.trial.look_messages import (
    AttentionTimes,
    GraphShares,
    Inspect,
    MeasuredRates,
    MeasureRates,
    Observe,
    Omit,
    Omitted,
    Probe,
    Probed,
    Record,
    TimeAttention,
    TimeGraph,
)
from advisor.tuners.trial.messages import Message
from advisor.tuners.trial.tasks import Inspection, Observation, Recording, Task


def carry_out(command: Message, watch: Watch, clock: Clock, channel: Channel) -> Task | None:
    """Do what the tuner asks between two steps; the task that takes the next steps, if one is asked for."""
    match command:
        case Observe():
            return Observation(watch, command.seconds, command.steps, command.limit_s, exact=command.exact)
        case Inspect():
            return Inspection(
                watch, clock, command.steps, command.limit_s, sampled=command.sampled, exact=command.exact
            )
        case Record():
            return Recording(
                clock,
                Path(command.path),
                command.steps,
                shapes=command.shapes,
                places=command.places and can_mark(clock.kind),
            )
        case Omit():
            channel.send(Omitted(_omit(watch, command.part)))
        case Probe():
            watch.probe()
            channel.send(Probed())
        case TimeGraph():
            channel.send(GraphShares(tuple(watch.graph_shares())))
        case MeasureRates():
            from advisor.profiles.derived.ceilings import measure_rates

            channel.send(MeasuredRates(measure_rates(limit_s=command.limit_s)))
        case TimeAttention():
            from advisor.profiles.derived.fused_attention import fused_ms

            shapes, limit_s = [list(shape) for shape in command.shapes], command.limit_s
            ms = fused_ms(shapes, command.dtypes, device=command.device, limit_s=limit_s)
            channel.send(AttentionTimes(tuple(ms)))
        case _:
            raise ValueError(f"no command of a trial: {type(command).__name__}")
    return None


def _omit(watch: Watch, part: str | None) -> str | None:
    """Why this part cannot be left out; ``None`` when it is, from the next step on."""
    try:
        watch.omit(part)
    except ValueError as reason:
        return str(reason)
    return None
