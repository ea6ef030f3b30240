"""The environment that a configuration asks for, of knobs that act before the program starts."""

from collections.abc import Mapping

from advisor.tuners.knob import AnyKnob, Value

PRELOAD = "LD_PRELOAD"  # libraries of several changes are joined


def environment_of(
    config: Mapping[str, Value], present: Mapping[str, Value], knobs: Mapping[str, AnyKnob]
) -> dict[str, str]:
    """Variables to set, for all knobs whose value is not the program's own."""
    environment: dict[str, str] = {}
    for name, value in config.items():
        setting = getattr(knobs[name], "environment", None)
        if setting is not None and value != present.get(name):
            join(environment, setting(value))
    return environment


def join(environment: dict[str, str], more: Mapping[str, str]) -> None:
    """Set these variables too."""
    preloaded = [settings[PRELOAD] for settings in (more, environment) if settings.get(PRELOAD)]
    environment.update(more)
    if preloaded:
        environment[PRELOAD] = ":".join(preloaded)
