"""The space of a resumed study: the one that it was begun with, whatever is measured of the program now.

What is worth trying follows from times, which are never the same twice. Trials of two parts of a study can be
put together only if they chose among the same settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.tuners.knob import AnyKnob, Refused, Value
from advisor.tuners.space import NotTried, Space

NOT_THEN = "it was not tried when this study was begun, and its trials are compared without it"


def as_begun(space: Space, begun: Mapping[str, Sequence[Value]], knobs: Mapping[str, AnyKnob]) -> Space:
    """The space of now with the choices of the study's first part.

    Args:
        space: What would be tried if the study were begun now.
        begun: Choices per knob of the first part, the present setting first.
        knobs: The registry, by id; nothing is taken over that they do not allow on this run.
    """
    choices: dict[str, list[Value]] = {}
    left_out: list[NotTried] = []
    for name, values in begun.items():
        if name not in knobs or name not in space.own or list(values[:1]) != [space.own[name]]:
            left_out.append(NotTried(name, None, "the program's own setting is another one than before"))
            continue
        refused = {value: _why_not(knobs[name], value, space) for value in values[1:]}
        choices[name] = [values[0], *(value for value, reason in refused.items() if reason is None)]
        left_out += [NotTried(name, value, reason) for value, reason in refused.items() if reason]
    left_out += [NotTried(name, None, NOT_THEN) for name in space.choices if name not in begun]
    told = [
        entry for entry in space.not_tried
        if entry.knob not in choices or (entry.value is not None and entry.value not in choices[entry.knob])
    ]  # fmt: skip
    fixed = {name: value for name, value in space.present.items() if name not in space.choices}
    present = {name: values[0] for name, values in choices.items()}
    return replace(space, present={**present, **fixed}, choices=choices, not_tried=[*told, *left_out])


def _why_not(knob: AnyKnob, value: Value, space: Space) -> str | None:
    if not any(type(value) is type(legal) and value == legal for legal in _legal(knob, value)):
        return "no such value"
    try:
        knob.check(value, space.profile)
    except Refused as reason:
        return str(reason)
    return None


def _legal(knob: AnyKnob, value: Value) -> Sequence[Value]:
    values = knob.values()
    if isinstance(values, range):
        return [value] if isinstance(value, int) and value in values else []
    return values
