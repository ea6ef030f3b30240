"""What public programs teach of layouts: rates, and how far predictions of steps and choices were off."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.planning.physics import Prior

STORED = Path(__file__).with_name("priors.json")


@dataclass(frozen=True)
class Record:
    """How choices among layouts did whose program was left out: longer than the fastest, relative."""

    choices: int
    regret: float
    largest_regret: float
    mean_error: float  # of steps


@dataclass(frozen=True)
class LayoutPriors:
    """By situation, ``one_node`` or ``more_nodes``: quantiles of the logarithm of measured over predicted.

    ``together`` is how errors of layouts of one model go together, as a correlation.
    """

    rates: Mapping[str, Prior]
    together: float
    off: Mapping[str, tuple[float, float]]
    record: Mapping[str, Record]

    @classmethod
    def stored(cls) -> "LayoutPriors":
        """Those that `python -m benchmarks.plan_layouts` wrote."""
        stored = json.loads(STORED.read_text(encoding="utf-8"))
        return cls(
            rates={name: Prior(*pair) for name, pair in stored["rates"].items()},
            together=stored["together"],
            off={kind: (low, high) for kind, (low, high) in stored["off"].items()},
            record={kind: Record(**row) for kind, row in stored["record"].items()},
        )
