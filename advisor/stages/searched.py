"""The space that settings ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.base.settings import Settings, Value
from advisor.profiles.facts.profile import Profile
from advisor.stages.asked_limits import within_limits
from advisor.stages.batch_size import Batches
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.constraints import SAVE_MEMORY
from advisor.tuners.space.space import NotTried, Space, build_space


def searched_space(
    settings: Settings,
    batches: Batches,
    profile: Profile,
    detectable: float,
    begun: Mapping[str, Sequence[Value]] | None = None,
) -> Space:
    """Everything that may be tried on a program.

    Args:
        settings: What the user asks for.
        batches: Where the batch size stands in this run.
        profile: The program as it is.
        detectable: Smallest gain that can be told from noise; 0 leaves nothing out for it.
        begun: What the first part of a resumed study tried of each knob.
    """
    space = build_space(
        KNOBS,
        within_limits(profile, settings),
        named=settings.knobs,
        fixed=settings.fixed,
        keep_batch=not batches.searched,
        max_batch=settings.max_batch,
        detectable=detectable,
        planned_steps=settings.steps_planned,
        ranks=settings.ranks,
        exempt=SAVE_MEMORY if settings.objective == "memory" else (),  # no habit of need alone then
    )
    if begun is not None:
        space = _as_begun(space, begun)
    return batches.complete(space)


def _as_begun(space: Space, begun: Mapping[str, Sequence[Value]]) -> Space:
    """The choices that a study was begun with, less what is refused now.

    What else would be worth trying now follows from times, which are never the same twice.
    """
    choices: dict[str, list[Value]] = {}
    refused: list[NotTried] = []
    for name, values in begun.items():
        if name not in KNOBS or space.own.get(name) != values[0]:
            refused.append(NotTried(name, None, "the program has no such setting now"))
            continue
        choices[name] = [values[0]]
        for value in values[1:]:
            try:
                KNOBS[name].check(value, space.profile)
            except Refused as reason:
                refused.append(NotTried(name, value, str(reason)))
            else:
                choices[name].append(value)
    left_out = [
        NotTried(name, None, "it was not tried when this study was begun")
        for name in space.choices if name not in begun
    ]  # fmt: skip
    told = [each for each in space.not_tried if each.value not in choices.get(each.knob, [each.value])]
    fixed = {name: value for name, value in space.present.items() if name not in space.choices}
    present = Configuration({**{name: values[0] for name, values in choices.items()}, **fixed})
    return replace(space, present=present, choices=choices, not_tried=[*told, *refused, *left_out])
