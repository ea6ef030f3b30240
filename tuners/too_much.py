"""Numbers that ran out of a resource: larger ones do too (measurement.md, section 5)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.tuners.failures import RESOURCE_CAUSES, Cause
from advisor.tuners.knob import Value


@dataclass
class TooMuch:
    """What was learnt from failures.

    Attributes:
        present: The baseline's setting, which does not fail.
    """

    present: Mapping[str, Value]
    _least: dict[str, int] = field(default_factory=dict)

    def learn(self, config: Mapping[str, Value], cause: Cause) -> None:
        """Of a configuration that failed: what it raised above the present setting is too much."""
        if cause not in RESOURCE_CAUSES:
            return
        for name, value in config.items():
            present = self.present[name]
            if isinstance(value, int) and isinstance(present, int) and value > present:
                self._least[name] = min(value, self._least.get(name, value))

    def holds(self, name: str, value: Value) -> bool:
        """Whether this value fails too."""
        return isinstance(value, int) and name in self._least and value >= self._least[name]
