"""Whether what a user fixed for baseline and candidates alike can hold, and did."""

from collections.abc import Mapping
from typing import NoReturn

from advisor.base.errors import UsageError
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import AnyKnob, Config, Refused, Value
from advisor.tuners.space.constraints import (
    CONSTRAINTS,
    Constraint,
    copies_need_pinned_memory,
    cpu_demand_fits,
    few_workers_per_cpu,
    learning_rate_waits_for_batch,
    predicted_memory_fits,
    threads_fit_the_cpus,
    waiting_needs_two_threads,
)

FOR_A_SEARCH: tuple[Constraint, ...] = (
    few_workers_per_cpu,
    threads_fit_the_cpus,
    cpu_demand_fits,
    predicted_memory_fits,
    waiting_needs_two_threads,
    learning_rate_waits_for_batch,
)
"""What is not worth trying, or not expected to fit: it takes effect all the same, as the baseline shows."""

OF_WHAT_IS_FIXED: tuple[Constraint, ...] = (copies_need_pinned_memory,)
"""What is asked of fixed settings alone: the program's own may do nothing beside them."""


def check_fixed(knobs: Mapping[str, AnyKnob], fixed: Config, own: Config, profile: Profile) -> None:
    """Refuse what cannot apply to this program, alone or together.

    Args:
        knobs: The registry, by id.
        fixed: What the user fixed.
        own: The program's own setting of every knob that has one.
        profile: What is known about the program and the machine.

    Raises:
        UsageError: With the knob and the reason.
    """
    for name, value in fixed.items():
        if value == own.get(name):
            continue
        try:
            knobs[name].check(value, profile)
        except Refused as refusal:
            _refuse(name, value, str(refusal))
    for rule in CONSTRAINTS:
        reason = rule(fixed if rule in OF_WHAT_IS_FIXED else {**own, **fixed}, profile)
        if rule in FOR_A_SEARCH or reason is None or reason == rule(own, profile):
            continue
        name = _culprit(rule, reason, fixed, own, profile)
        _refuse(name, fixed[name], reason)


def check_applied(
    knobs: Mapping[str, AnyKnob], fixed: Config, refused: Mapping[str, str], profile: Profile
) -> None:
    """Refuse to go on with a baseline in which a fixed knob does not act.

    Args:
        knobs: The registry, by id.
        fixed: What the user fixed.
        refused: Knobs that declined in the running program, with their reasons.
        profile: What is known about that program; a value that is its own anyway needs no knob to act.

    Raises:
        UsageError: With the knob and the reason.
    """
    for name, value in fixed.items():
        if name in refused and value != _own(knobs[name], profile):
            _refuse(name, value, refused[name])


def _culprit(rule: Constraint, reason: str, fixed: Config, own: Config, profile: Profile) -> str:
    """The fixed knob that the rule is about: one without which it has no such objection."""
    free = {name: {key: value for key, value in fixed.items() if key != name} for name in fixed}
    found = [name for name, others in free.items() if rule({**own, **others}, profile) != reason]
    return next((name for name in found if name in reason), [*found, *fixed][0])


def _own(knob: AnyKnob, profile: Profile) -> Value | None:
    try:
        own: Value = knob.present(profile)
    except Refused:
        return None
    return own


def _refuse(name: str, value: Value, reason: str) -> NoReturn:
    raise UsageError(f"{name}={value} cannot apply", where="--fix", cause=reason) from None
