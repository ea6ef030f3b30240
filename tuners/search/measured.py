"""The measurement cache: what a study has measured of a configuration under its contract counts again.

A resumed search begins from its first stage. A configuration that was scored, or failed by itself, is
answered from here and nothing is launched; a confirmation goes on with the processes that it has. What an
interrupt cut off is not here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from advisor.tuners.comparing.looks import Decision, decided
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.comparing.pair_places import Where
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import Cause


@dataclass
class Measured:
    """Everything by configuration; in the order measured.

    Attributes:
        scores: Log ratios to the baseline, with what a sample is worth.
        failures: Why a configuration failed, where it would again.
        interrupted: Configurations of the trials that ended with their tuner. They count as no trial.
        instances: Log ratios of each process of a confirmation; the one that was begun last comes last.
        where: Each of these was measured, where it was on one of several nodes.
        contributions: What each change of a confirmed configuration gave when it was taken out.
        how: The way in which the processes of a confirmation are compared; empty where that is not known.
    """

    scores: dict[Configuration, list[float]] = field(default_factory=dict)
    failures: dict[Configuration, Cause] = field(default_factory=dict)
    interrupted: list[Configuration] = field(default_factory=list)
    instances: dict[Configuration, list[list[float]]] = field(default_factory=dict)
    where: dict[Configuration, list[Where]] = field(default_factory=dict)
    contributions: dict[Configuration, Mapping[str, Estimate]] = field(default_factory=dict)
    how: Callable[[Configuration], str] = lambda config: ""

    def score(self, config: Configuration, *, again: bool = False) -> float | None:
        """The last score of a configuration; asked for ``again``, only if it was measured twice."""
        scores = self.scores.get(config, [])
        return scores[-1] if len(scores) > int(again) else None

    def add_instance(
        self, config: Configuration, log_ratios: list[float], where: Where | None = None
    ) -> None:
        """Keep one process of a confirmation."""
        there = self.instances.pop(config, [])
        if where is not None or config in self.where:
            known = self.where.setdefault(config, [Where()] * len(there))
            known.append(where or Where())
        self.instances[config] = [*there, log_ratios]

    def _decided(self, config: Configuration, min_gain: float, level: float) -> Decision | None:
        instances, where = self.instances.get(config, []), self.where.get(config, [])
        return decided(instances, min_gain=min_gain, level=level, how=self.how(config), where=where)

    def confirmed(self, config: Configuration, *, min_gain: float, level: float) -> Estimate | None:
        """The estimate with which a configuration was confirmed, if it was. Args as of ``look``."""
        decision = self._decided(config, min_gain, level)
        return decision.estimate if decision is not None and decision.verdict == "confirmed" else None

    def open_confirmations(self, *, min_gain: float, level: float) -> list[Configuration]:
        """Configurations whose confirmation ended without a decision, the latest first. Args as of ``look``.

        One that is decided is open where the tuner ended before it had said so.
        """
        return [
            config for config in reversed(self.instances)
            if config not in self.failures and (
                self._decided(config, min_gain, level) is None
                or (config in self.interrupted and self.confirmed(config, min_gain=min_gain, level=level))
            )
        ]  # fmt: skip
