"""The first line of a run: what is about to happen, on which devices, and how long at most."""

import os
from collections.abc import Mapping

from advisor.base.durations import write_duration
from advisor.base.errors import clean
from advisor.base.settings import Settings, TargetRequest
from advisor.profiles.facts.machine import Machine

VISIBLE = "CUDA_VISIBLE_DEVICES"


def first_line(
    target: TargetRequest, machine: Machine, limit: str, environment: Mapping[str, str] = os.environ
) -> str:
    """``train.py, script, 2 CPUs, no GPU: up to 10 min``.

    Args:
        target: What is run.
        machine: Where.
        limit: What is done, and when it ends.
        environment: May hide devices.
    """
    count = machine.cpus_allowed
    cpus = f"{count} CPU" if count == 1 else f"{count} CPUs"
    return f"{target.name}, {target.kind}, {cpus}, {_gpus(machine, environment.get(VISIBLE))}: {limit}"


def limit_of(settings: Settings) -> str:
    """``up to 10 min``: when a search ends."""
    trials = "" if settings.trials is None else f"{settings.trials} trials or "
    return f"up to {trials}{write_duration(settings.budget_s)}"


def visible_gpus(present: int, variable: str | None) -> int:
    """How many of the devices present CUDA shows: it stops at the first name it cannot resolve.

    Args:
        present: Devices that the driver lists.
        variable: ``CUDA_VISIBLE_DEVICES``; ``None`` when it is not set.
    """
    if variable is None or present == 0:
        return present
    count = 0
    for entry in (part.strip() for part in variable.split(",")):
        known = entry.startswith(("GPU-", "MIG-")) or (entry.isdecimal() and int(entry[:9]) < present)
        if not known:
            break
        count += 1
    return count


def _gpus(machine: Machine, variable: str | None) -> str:
    """The devices that CUDA shows, and the variable if it hides or reorders any."""
    if not machine.gpus:
        return "no GPU"
    if variable is None:
        return ", ".join(gpu.name for gpu in machine.gpus)
    shown = visible_gpus(len(machine.gpus), variable)
    named = [part.strip() for part in variable.split(",")][:shown]
    names = [machine.gpus[int(part[:9])].name if part.isdecimal() else part for part in named]
    return f"{', '.join(names) or 'no GPU'} ({VISIBLE}={clean(variable, 100)})"
