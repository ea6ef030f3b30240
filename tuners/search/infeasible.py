"""Numbers that ran out of a resource: larger ones do too (measurement.md, section 5)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.tuners.knob import Config, Value
from advisor.tuners.space.constraints import SAVE_MEMORY
from advisor.tuners.space.memory_model import UNKNOWN_SAVINGS
from advisor.tuners.supervision.failures import RESOURCE_CAUSES, Cause

SAVERS: dict[str, Value] = {
    **dict.fromkeys(("amp", "fsdp_precision", "gradient_as_bucket_view", *UNKNOWN_SAVINGS), "off"),
    **SAVE_MEMORY,
}
"""Knobs that can make a run need less memory, with the setting that does not."""
OUT_OF_MEMORY: frozenset[Cause] = frozenset({"oom_device", "oom_host"})


@dataclass(frozen=True)
class Bound:
    """Where something ran out.

    Attributes:
        least: Numbers that are too much together, if what saves memory is no more than in ``savers``.
        savers: What saved memory when it failed.
    """

    least: Mapping[str, float]
    savers: Config

    def holds(self, config: Config) -> bool:
        """Whether this configuration asks for as much and saves no more."""
        reached = all(_number(config, name) >= least for name, least in self.least.items())
        return reached and not saves_more(config, self.savers)


@dataclass
class TooMuch:
    """What was learnt from failures.

    Attributes:
        present: The baseline's setting, which does not fail.
    """

    present: Config
    _bounds: list[Bound] = field(default_factory=list)

    def learn(self, config: Config, cause: Cause, incumbent: Config) -> None:
        """Of a configuration that failed: what it raised above those that run is too much.

        An out-of-memory is blamed on the batch size where that is raised, else on all numbers together.

        Args:
            config: Complete, like all others.
            cause: Of the failure.
            incumbent: What runs, and was to be improved.
        """
        if cause not in RESOURCE_CAUSES:
            return
        runs = [self.present] if saves_more(incumbent, config) else [self.present, incumbent]
        raised = {
            name: _number(config, name)
            for name in config.keys() - SAVERS.keys()
            if all(_number(config, name) > _number(each, name) for each in runs)
        }
        if cause in OUT_OF_MEMORY and "batch_size" in raised:
            raised = {"batch_size": raised["batch_size"]}
        if raised:
            self._bounds.append(Bound(raised, {name: config.get(name, off) for name, off in SAVERS.items()}))

    def holds(self, config: Config, incumbent: Config) -> bool:
        """Whether this configuration fails too; what speaks against the incumbent as well was wrong."""
        return any(bound.holds(config) and not bound.holds(incumbent) for bound in self._bounds)


def saves_more(config: Config, other: Config) -> bool:
    """Whether anything saves memory in a configuration that does not, or does so less, in the other one."""
    return any(_saved(name, config) > _saved(name, other) for name in SAVERS)


def _saved(name: str, config: Config) -> float:
    """Larger where it saves more; only compared among values of one knob."""
    value = config.get(name, SAVERS[name])
    if name == "accumulation":
        return float(value)
    return -float(value) if name == "activation_memory_budget" else float(value != SAVERS[name])


def _number(config: Config, name: str) -> float:
    """The value, if it is a number; else what is neither more nor less than any."""
    value = config.get(name)
    return value if isinstance(value, int) else math.nan
