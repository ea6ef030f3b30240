"""What a configuration says about compiling, for all who act only on compiled code."""

from advisor.tuners.knob import Config

COMPILE = "compile"


def compiles(config: Config) -> bool:
    """Whether this configuration has `torch.compile` run the models."""
    return str(config.get("execution", "eager")).startswith(COMPILE)
