"""Where ``generate`` of transformers keeps keys and values."""

from typing import Any


def cache_of(model: Any, args: Any, kwargs: Any) -> str:
    """What it is called for: arguments count before a configuration of them, that before the model's own.

    Args:
        model: Whose ``generate`` it is.
        args: Positional arguments after the model.
        kwargs: Named ones.
    """
    if kwargs.get("past_key_values") is not None:
        return "own"
    given = kwargs.get("generation_config", args[1] if len(args) > 1 else None)
    config = getattr(model, "generation_config", None) if given is None else given
    if kwargs.get("use_cache", getattr(config, "use_cache", None)) is False:
        return "off"
    kind = kwargs.get("cache_implementation", getattr(config, "cache_implementation", None))
    return "dynamic" if kind is None else str(kind)
