"""Profiles a PyTorch training run, tries changes on it, and proves which ones help.

Names are handed on when they are asked for, so that importing this package loads nothing else.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.notebook.profile import profile as profile
    from advisor.notebook.tune import Result as Result
    from advisor.notebook.tune import tune as tune
    from advisor.planning.in_python import plan as plan
    from advisor.profiles.hooks.step.marked import request as request
    from advisor.workloads.workload import Workload as Workload

    __version__: str

__all__ = ["Result", "Workload", "__version__", "plan", "profile", "request", "tune"]

_HOMES = {
    "Result": "advisor.notebook.tune",
    "Workload": "advisor.workloads.workload",
    "load_ipython_extension": "advisor.notebook.magics",
    "plan": "advisor.planning.in_python",
    "profile": "advisor.notebook.profile",
    "request": "advisor.profiles.hooks.step.marked",
    "tune": "advisor.notebook.tune",
    "unload_ipython_extension": "advisor.notebook.magics",
}


def __getattr__(name: str) -> object:
    """Import what a public name stands for, the first time it is used."""
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("torch-advisor")
        return globals()[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'advisor' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """The public names, also those not yet imported."""
    return sorted({*globals(), *__all__})
