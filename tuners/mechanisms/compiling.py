"""What a configuration says about compiling, for all who act only on compiled code."""

from advisor.tuners.knob import Config, Value

COMPILE = "compile"
NEED_COMPILE: dict[str, Value] = {
    "activation_memory_budget": "1.0",
    "compile_region": "model",
    "dynamic": "auto",
}
"""Knobs that act only on compiled code, with the setting of a program that compiles nothing."""


def compiles(config: Config) -> bool:
    """Whether this configuration has `torch.compile` run the models."""
    return str(config.get("execution", "eager")).startswith(COMPILE)
