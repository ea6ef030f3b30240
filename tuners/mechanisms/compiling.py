"""What a configuration says about compiling, for all who act only on compiled code."""

from advisor.tuners.knob import Config, Value

COMPILE = "compile"
FREEZING = "compile-freezing"  # with the weights of a model that only answers as constants
NEED_COMPILE: dict[str, Value] = {
    "activation_memory_budget": "1.0",
    "compile_region": "model",
    "dynamic": "auto",
}
"""Knobs that act only on compiled code, with the setting of a program that compiles nothing."""


def mode_of(value: str) -> str | None:
    """torch's name of the mode that a value of `execution` compiles in; ``None`` for its default."""
    return None if value == FREEZING else value.removeprefix(COMPILE).removeprefix("-") or None


def compiles(config: Config) -> bool:
    """Whether this configuration has `torch.compile` run the models."""
    return str(config.get("execution", "eager")).startswith(COMPILE)
