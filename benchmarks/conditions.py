"""The machine and versions that a figure belongs to, for every result written here."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import torch

from advisor.profiles.machine import read_machine


def conditions() -> dict[str, Any]:
    """Machine, versions and time, as JSON values."""
    machine = read_machine()
    return {
        "taken": datetime.now(UTC).isoformat(timespec="minutes"),
        "cpu": machine.cpu_model,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "bf16_units": torch.ops.mkldnn._is_mkldnn_bf16_supported(),
        "cpus_allowed": machine.cpus_allowed,
        "memory_gib": round(machine.memory_bytes / 2**30),
        "gpus": [gpu.name for gpu in machine.gpus],
        "python": platform.python_version(),
        "torch": machine.torch,
        "optuna": version("optuna"),
        "advisor": version("torch-advisor"),
    }
