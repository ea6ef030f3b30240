"""Profiles a PyTorch training run, tries changes on it, and proves which ones help.

Names are handed on when they are asked for, so that importing this package loads nothing else.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.notebook import Result as Result
    from advisor.notebook import tune as tune
    from advisor.profile_of import profile as profile
    from advisor.workload import Workload as Workload

    __version__: str

__all__ = ["Result", "Workload", "__version__", "profile", "tune"]

_HOMES = {
    "Result": "advisor.notebook",
    "Workload": "advisor.workload",
    "load_ipython_extension": "advisor.magics",
    "profile": "advisor.profile_of",
    "tune": "advisor.notebook",
    "unload_ipython_extension": "advisor.magics",
}


def __getattr__(name: str) -> object:
    """Import what a public name stands for, the first time it is used."""
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        return version("torch-advisor")
    if name not in _HOMES:
        raise AttributeError(f"module 'advisor' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """The public names, also those not yet imported."""
    return sorted({*globals(), *__all__})
