"""What starting the workers of every epoch costs, where a window is too short to hold such a start.

Forked workers start in milliseconds. Where they are spawned, or come from a fork server (the default on Linux
from Python 3.14 on), each imports the program again: seconds, in every epoch, unless they are kept.
"""

from collections.abc import Mapping

from advisor.profiles.derived.epochs import Epochs
from advisor.profiles.facts.profile import LoaderFacts
from advisor.tuners.knob import AnyKnob, Value


def share_of_restarts(
    loader: LoaderFacts | None, config: Mapping[str, Value], epochs: Epochs, step_s: float
) -> float:
    """Time that an epoch takes to start its workers, over the time of its steps; the least that it can be.

    A start is what lies between asking for an epoch and its first batch. Making that batch is no part of it:
    where workers keep up it takes them less than as many steps as they are, and so many are taken off.

    Args:
        loader: Of a process that has started an epoch; ``None`` where it has none.
        config: What it ran under; where that says nothing of keeping workers, the program's own word counts.
        epochs: Of the program.
        step_s: Seconds of a step once the workers run.
    """
    workers, steps = int(config.get("num_workers", 0)), epochs.steps(config)
    if loader is None or not workers or steps is None:
        return 0.0
    start_s = (loader.worker_start_ms or 0.0) / 1000
    if config.get("persistent_workers", "on" if loader.persistent_workers else "off") == "on":
        return 0.0
    return max(0.0, start_s - workers * step_s) / (steps * step_s)


def steps_before(config: Mapping[str, Value], knobs: Mapping[str, AnyKnob], epochs: Epochs | None) -> int:
    """Steps of a new process before it goes on as it does under a configuration.

    0 for nearly all, and where the length of an epoch is not known.
    """
    passing = max(
        (knobs[name].epochs_before(value) for name, value in config.items() if name in knobs), default=0
    )
    return passing * (epochs.steps(config) or 0) if passing and epochs is not None else 0
