"""What a measured gain means for the training that is planned: time per epoch, time and cost of it all."""

from collections.abc import Mapping

from advisor.profiles.facts.profile import Profile
from advisor.result.document import Interval, PlannedRun
from advisor.stages.diagnosing.result_findings import epoch_s

HOUR_S = 3600.0


def planned_run(
    profile: Profile,
    step_s: float,
    step_ratio: Mapping[str, float] | None,
    *,
    steps: int | None,
    batch_ratio: float,
    compile_s: float | None,
    price_per_hour: float | None,
) -> PlannedRun | None:
    """The planned run as it is, and with the recommendation.

    Evaluation and saves are in neither: they are told apart. The same samples are trained on, so a larger
    batch takes fewer steps.

    Args:
        profile: Of the program as it is.
        step_s: Seconds of its step.
        step_ratio: ``estimate``, ``low`` and ``high`` of samples per second over the present ones; ``None``
            without a recommendation.
        steps: That are planned, or that the program makes by itself; ``None`` where nobody knows.
        batch_ratio: Of the recommended batch over the present one.
        compile_s: What compiling adds once.
        price_per_hour: Of the machine, in any currency.
    """
    epoch = epoch_s(profile, step_s)
    if steps is None and epoch is None:
        return None
    once = compile_s or 0.0
    total = None if steps is None else steps * step_s
    found = PlannedRun(
        steps=steps,
        epoch_s=epoch,
        seconds=total,
        cost=_cost(total, price_per_hour),
        price_per_hour=price_per_hour,
    )
    if step_ratio is None:
        return found
    found.changed_steps = None if steps is None else max(1, round(steps / batch_ratio))
    found.changed_epoch_s = None if epoch is None else _shorter(epoch, step_ratio, 0.0)
    if total is not None:
        found.changed_seconds = _shorter(total, step_ratio, once)
        found.changed_cost = _cost(found.changed_seconds.estimate, price_per_hour)
    return found


def _shorter(seconds: float, ratio: Mapping[str, float], once_s: float) -> Interval:
    return Interval(
        estimate=seconds / ratio["estimate"] + once_s,
        low=seconds / ratio["high"] + once_s,
        high=seconds / ratio["low"] + once_s,
    )


def _cost(seconds: float | None, price_per_hour: float | None) -> float | None:
    return None if seconds is None or price_per_hour is None else seconds / HOUR_S * price_per_hour
