"""The environment of a process that an engine started: that of the tuner, and what is the node's own.

Standard library only, since it is part of what starts on a node.
"""

import json
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

THREADS = "OMP_NUM_THREADS"
OF_RAY = ("RAY_", "SPT_NOENV")
PRIVATE = ("ADVISOR_STORAGE",)  # may hold a password; benches store nothing
OF_NODE = (
    "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "HOSTNAME",
    "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURMD_NODENAME", "TMPDIR", "XDG_RUNTIME_DIR",
    "ZE_AFFINITY_MASK",
)  # fmt: skip


def environment_on_node(tuner: Mapping[str, str], node: Mapping[str, str]) -> dict[str, str]:
    """Variables of a process on a node.

    What the scheduler adds for its own processes there stays out (a step of SLURM, a worker of Ray with one
    OpenMP thread): frameworks take it for a launch of many ranks, or for what the user wants.

    Args:
        tuner: The environment of the tuner.
        node: That of the process which the engine started on the node.
    """
    own = {name: value for name, value in node.items() if name in OF_NODE}
    others = {name: value for name, value in tuner.items() if name not in OF_NODE}
    return {**others, **own}


def hide_ray(environment: MutableMapping[str, str]) -> dict[str, str]:
    """Take what is Ray's out of an environment, its token included; returns what was taken.

    A job of Ray has one OpenMP thread set, which nobody asked for.
    """
    names = [name for name in environment if name.startswith(OF_RAY)]
    if environment.get("PYTHONBREAKPOINT", "").startswith("ray."):
        names.append("PYTHONBREAKPOINT")
    if THREADS in environment and _ray_set_threads(environment):
        names.append(THREADS)
    return {name: environment.pop(name) for name in names}


def _ray_set_threads(environment: Mapping[str, str]) -> bool:
    """Whether neither the node nor the job's own variables say how many threads."""
    raylet = environment.get("RAY_RAYLET_PID", "")
    if not raylet.isdigit():
        return False
    try:
        of_node = Path(f"/proc/{raylet}/environ").read_bytes().split(b"\0")
        job = json.loads(environment.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
        of_job = (job.get("runtime_env") or {}).get("env_vars") or {}
    except (OSError, ValueError, AttributeError):
        return False
    return THREADS not in of_job and not any(each.startswith(THREADS.encode() + b"=") for each in of_node)


def environment_sent() -> dict[str, str]:
    """The environment of this process, as far as it may leave it."""
    return {name: value for name, value in os.environ.items() if name not in PRIVATE}
