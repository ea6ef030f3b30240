"""The machine and versions that a figure belongs to, for every result written here."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import torch

from advisor.profiles.facts.machine import read_machine, with_torch


def conditions() -> dict[str, Any]:
    """Machine, versions and time, as JSON values."""
    machine = with_torch(read_machine(), torch.get_num_threads())
    return {
        "taken": datetime.now(UTC).isoformat(timespec="minutes"),
        "cpu": machine.cpu_model,
        "cpu_capability": machine.cpu_capability,
        "bf16_units": (machine.bf16_speedup or 0.0) > 1,
        "cpus_allowed": machine.cpus_allowed,
        "memory_gib": round(machine.memory_bytes / 2**30),
        "gpus": [gpu.name for gpu in machine.gpus],
        "python": platform.python_version(),
        "torch": machine.torch,
        "optuna": version("optuna"),
        "advisor": version("torch-advisor"),
    }
