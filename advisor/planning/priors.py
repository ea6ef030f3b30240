"""What other programs teach: priors, growth of steps, and how far predictions were off."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.planning.growth import Growth
from advisor.planning.physics import Prior

STORED = Path(__file__).with_name("priors.json")


@dataclass(frozen=True)
class Spread:
    """How measured steps lay about predictions: 5 % and 95 % quantiles of the logarithm over its scale."""

    low: float
    high: float


@dataclass(frozen=True)
class Record:
    """How predictions of one situation did on public programs whose source was left out."""

    up_to: float  # how many times the largest measured count, at most
    series: int
    mean_error: float
    median_error: float
    trivial_error: float  # mean, of perfect scaling from the last point
    covered: float  # share inside the 90 % intervals


@dataclass(frozen=True)
class Priors:
    """Everything that a prediction takes from public data, by situation (``growth.situation``)."""

    physics: Mapping[str, Prior]
    growth: Mapping[str, Growth]
    spread: Mapping[str, Spread]
    record: Mapping[str, tuple[Record, ...]]

    @classmethod
    def stored(cls) -> "Priors":
        """Those that `python -m benchmarks.plan_priors` wrote."""
        return cls.of(json.loads(STORED.read_text(encoding="utf-8")))

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Priors":
        """From the stored form."""
        return cls(
            physics={name: Prior(*pair) for name, pair in stored["physics"].items()},
            growth={name: Growth(*pair) for name, pair in stored["growth"].items()},
            spread={name: Spread(*pair) for name, pair in stored["spread"].items()},
            record={name: tuple(Record(**row) for row in rows) for name, rows in stored["record"].items()},
        )
