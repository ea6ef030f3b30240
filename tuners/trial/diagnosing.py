"""The child's side of a diagnosis: commands that look at the run instead of changing it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from advisor.profiles.hooks.recorder import can_mark
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.trial.channel import Channel
from advisor.tuners.trial.tasks import Inspection, Observation, Recording, Task


def carry_out(
    name: str, command: dict[str, Any], watch: Watch, clock: Clock, channel: Channel
) -> Task | None:
    """Do what the tuner asks between two steps; the task that takes the next steps, if one is asked for.

    ``observe``, ``inspect`` and ``record`` take steps. ``omit`` leaves one part of every step out from now
    on (``None``: nothing), ``probe`` costs out the loader, ``graph`` times an evaluation without its graph,
    ``rates`` measures the machine, ``attention`` torch's fused attention at given shapes.
    """
    match name:
        case "observe":
            exact = command.get("exact", False)
            return Observation(watch, command["seconds"], command["steps"], command["limit_s"], exact=exact)
        case "inspect":
            return Inspection(watch, command["steps"], command["limit_s"], exact=command.get("exact", False))
        case "record":
            return Recording(
                clock,
                Path(command["path"]),
                command["steps"],
                shapes=command["shapes"],
                places=command["places"] and can_mark(clock.kind),
            )
        case "omit":
            channel.send(event="omitted", reason=_omit(watch, command["part"]))
        case "probe":
            watch.probe()
            channel.send(event="probed")
        case "graph":
            channel.send(event="graph", shares=watch.graph_shares())
        case "rates":
            from advisor.profiles.derived.ceilings import measure_rates

            channel.send(event="rates", rates=asdict(measure_rates(limit_s=command["limit_s"])))
        case "attention":
            from advisor.profiles.derived.fused_attention import fused_ms

            shapes, dtypes = command["shapes"], command["dtypes"]
            channel.send(
                event="attention",
                ms=fused_ms(shapes, dtypes, device=command["device"], limit_s=command["limit_s"]),
            )
        case _:
            raise ValueError(f"unknown command {name}")
    return None


def _omit(watch: Watch, part: str | None) -> str | None:
    """Why this part cannot be left out; ``None`` when it is, from the next step on."""
    try:
        watch.omit(part)
    except ValueError as reason:
        return str(reason)
    return None
