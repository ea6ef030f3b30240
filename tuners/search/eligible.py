"""Which measured configurations a search may go on from, and nominate."""

from collections.abc import Mapping

from advisor.tuners.knob import AnyKnob, Semantics
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space


def may_be_nominated(
    config: Configuration, space: Space, knobs: Mapping[str, AnyKnob], *, allow_training: bool
) -> bool:
    """Whether its updates are those of the baseline, or the user allows others.

    Args:
        config: Complete.
        space: Of the search.
        knobs: All, by name.
        allow_training: What changes the training by asynchronous, stale, compressed or local updates may be.
    """
    present = space.present
    if space.profile.target_kind == "script" and config.get("ranks", 1) != present.get("ranks", 1):
        return False
    changed = [knobs[name] for name in config.changed(present)]
    return allow_training or not any(
        knob.opt_in and knob.meaning(config) is Semantics.TRAINING for knob in changed
    )


def is_of_space(config: Configuration, space: Space) -> bool:
    """Whether a configuration of an earlier part of the study may be tried in this space."""
    present, choices = space.present, space.choices
    return (
        config.keys() == present.keys()
        and all(value in choices.get(name, (present[name],)) for name, value in config.items())
        and space.check(config) is None
    )
