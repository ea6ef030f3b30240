"""How much do pairs of processes differ? Learns from all recorded series what a confirmation may expect.

    python -m benchmarks.learn_spread

Every series is compared with itself in fresh pairs, in every way of comparing. The variances between pairs
are taken as draws of a scaled inverse chi-square distribution, whose two figures follow from mean and
variance of their logarithms (Smyth 2004, "Linear models and empirical Bayes methods", section 6.2): once
for the variance itself, once for its ratio to the squared standard error within a pair. Each way of
comparing has figures of its own, since two processes differ by more than two settings of one, and there are
those of all together. A few series agree too well by chance: no prior counts for more than a few pairs.
"""

import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from advisor.base.settings import Settings, TargetRequest
from advisor.stages.baseline_steps import FLOOR
from advisor.stages.confirming.confirmation_plan import instance_quads
from advisor.tuners.comparing.measure import SPREAD, median, within_variance
from benchmarks.placebos import BASE, BUDGET_S, CANDIDATE, PLACEBOS
from benchmarks.record_series import SERIES, read, series_in
from benchmarks.replayed import Clock, Program, ReplayLauncher

PAIRS = 300
MOST_FREEDOM = 3.0  # of a prior; at 4 two pairs of a program it was not learnt from cover 92 % at 95 %
LEAST_KNOWN = 3  # variances that make a prior


def pairs(program: Program) -> Iterator[tuple[str, list[list[float]]]]:
    """Log ratios of ``PAIRS`` pairs of the program with itself, for each way of comparing."""
    settings = Settings(target=TargetRequest(kind="script", name=program.name), budget_s=BUDGET_S)
    for how, knobs in PLACEBOS.items():
        launcher = ReplayLauncher(program, Clock(), random.Random(f"learn {how}"))
        arena = launcher.arena(knobs)
        arena.step_s, arena.sigma, arena.threads = program.step_s, FLOOR, program.threads
        quads = instance_quads(arena, settings)
        yield (
            how,
            [
                arena.duel(BASE, CANDIDATE, how=how, quads=quads, swapped=index % 2 == 1).log_ratios
                for index in range(PAIRS)
            ],
        )


def prior(variances: Sequence[float]) -> dict[str, float]:
    """Degrees of freedom and typical value of a scaled inverse chi-square distribution (equations 14 and 15).

    Each variance is taken as known: it comes from hundreds of pairs.
    """
    from scipy.optimize import brentq
    from scipy.special import digamma, polygamma

    logs = [math.log(each) for each in variances]
    mean = sum(logs) / len(logs)
    spread = sum((each - mean) ** 2 for each in logs) / (len(logs) - 1)
    half = float(brentq(lambda x: polygamma(1, x) - spread, 1e-3, 1e6))
    typical = math.exp(mean + float(digamma(half)) - math.log(half))
    freedom = min(MOST_FREEDOM, round(2 * half, 2))
    return {"freedom": freedom, "variance": float(f"{typical:.3g}")}


def learn(paths: Sequence[Path]) -> dict[str, Any]:
    """The figures, and the files of series that they come from."""
    plain, relative = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for path in paths:
        for how, found in pairs(Program(read(path))):
            medians = [median(each) for each in found]
            variance = sum(each**2 for each in medians) / len(medians)  # the truth is 0
            inside = within_variance(found)
            for name in ("", how):
                plain[name].append(variance)
                if inside is not None:
                    relative[name].append(variance / inside)
    ways = {
        name: {
            kind: prior(known[name])
            for kind, known in (("plain", plain), ("relative", relative))
            if len(known[name]) >= LEAST_KNOWN
        }
        for name in plain
    }
    return {
        "learnt_by": "python -m benchmarks.learn_spread",
        "series": [path.name for path in paths],
        "pairs": PAIRS,
        "ways": ways,
    }


def main() -> None:
    """Learn and write."""
    SPREAD.write_text(json.dumps(learn(series_in(SERIES)), indent=1) + "\n")


if __name__ == "__main__":
    main()
