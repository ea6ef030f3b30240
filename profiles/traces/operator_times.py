"""How long operators take by name, phase and place: what two traces of one program have in common."""

from dataclasses import dataclass

import numpy as np

from advisor.profiles.facts.observed import Location
from advisor.profiles.traces.calls import OTHER, PHASES, Calls
from advisor.profiles.traces.equal_rows import alike


@dataclass(frozen=True)
class OperatorTime:
    """One operator in one phase, called from one place; calls and time are per step.

    ``ms`` is the device time of the kernels that it launched itself, or its self time on the host where there
    is no device.
    """

    name: str
    phase: str
    location: Location | None
    calls: float
    ms: float


def operator_times(calls: Calls) -> tuple[OperatorTime, ...]:
    """All operators within steps that took time, the longest first."""
    rows = np.flatnonzero(calls.op & (calls.step >= 0) & (calls.spent_self_us > 0))
    if not len(rows):
        return ()
    numbers, places = calls.places
    phase = np.where(calls.exchanging[rows], OTHER, calls.phase[rows])
    kinds = alike(calls.name[rows], phase, numbers[rows])
    spent = np.bincount(kinds.group, calls.spent_self_us[rows])
    found = [
        OperatorTime(
            name=calls.trace.names[calls.name[rows[at]]],
            phase=PHASES[phase[at]],
            location=places[number] if (number := int(numbers[rows[at]])) >= 0 else None,
            calls=int(kinds.count[position]) / calls.steps.count,
            ms=calls.per_step_ms(float(spent[position])),
        )
        for position, at in enumerate(kinds.first.tolist())
    ]
    return tuple(sorted(found, key=lambda each: -each.ms))
