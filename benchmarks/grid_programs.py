"""Programs on paper that behave as recorded workloads did, by what a measured grid makes of a step.

The larger batches of a grid are left out: what they bring depends on goodput, which a grid does not hold.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from grids import RESULTS, Grid, read_grid
from replayed_program import Config, Effect, Program, When

from advisor.tuners.comparing.measure import median
from advisor.tuners.knob import Value
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import Failure


def recorded() -> list[Grid]:
    """All measured grids, by the name of their workload."""
    found = (read_grid(RESULTS, file.stem) for file in sorted(RESULTS.glob("*.json")))
    return [grid for grid in found if grid is not None]


@dataclass(frozen=True)
class GridProgram:
    """One grid, and the program that has its effects."""

    grid: Grid

    @property
    def knobs(self) -> dict[str, list[Value] | None]:
        """What is searched: the values of the grid, its batch size apart."""
        return {name: list(values) for name, values in self.grid.knobs.items() if name != "batch_size"}

    def speeds(self) -> dict[Configuration, float]:
        """Log ratios over the program as it is, with its own batch size."""
        batch = self.grid.present.get("batch_size")
        return {
            config: speed for config, speed in self.grid.speeds().items() if config.get("batch_size") == batch
        }

    def program(self, node: int, startup_s: float, seed: int = 0) -> Program:
        """It on one node; ``seed`` is of the noise."""
        grid, own = self.grid, Random(f"{self.grid.workload} {node} {seed}")
        present = grid.space().complete(grid.present)
        effects = [
            Effect(self._is(config), step=math.exp(-speed))
            for config, speed in self.speeds().items() if config != present
        ]  # fmt: skip
        effects += [
            Effect(self._is(grid.space().complete(cell.config)), fails=Failure(cell.cause, cell.reason))
            for cell in grid.cells if cell.state == "failed" and cell.cause is not None
        ]  # fmt: skip
        return Program(
            effects, step_s=grid.step_s, startup_s=startup_s, noise=grid.sigma * math.sqrt(grid.slot_steps),
            between=self._between(), profile=grid.profile, parts=self._parts, seed=own.randrange(2**31),
        )  # fmt: skip

    def speed(self, config: Config) -> float:
        """Of a configuration over the program as it is."""
        return math.exp(self.speeds()[self._meant(config)])

    def _is(self, config: Configuration) -> When:
        return lambda other: self._meant(other) == config

    def _meant(self, config: Config) -> Configuration:
        present: Mapping[str, Value] = self.grid.present
        return self.grid.space().complete({name: config.get(name, of) for name, of in present.items()})

    def _parts(self, config: Config) -> Mapping[str, float]:
        """The wait for data, which is all that loaders shorten; the rest of a step as it was."""
        phases = self.grid.profile.phases
        waits = phases.share("input_wait") if phases is not None else 0.0
        left = 1.0 - (1.0 - waits) * self.speed(config) if waits else 0.0
        return {"input_wait": max(0.0, left), "forward": 1.0 - max(0.0, left)}

    def _between(self) -> float:
        """Spread of whole processes, as confirmed cells show it; two of them are in each ratio."""
        spreads = []
        for cell in self.grid.confirmed:
            medians = [median(ratios) for ratios in cell.instances]
            if len(medians) > 2:
                centre = median(medians)
                spreads.append(median([abs(each - centre) for each in medians]) * 1.4826 / math.sqrt(2))
        return median(spreads) if spreads else 0.01
