"""The folder is the registry: one file, one strategy."""

from advisor.base.registry import members
from advisor.tuners.strategy import Strategy

STRATEGIES: dict[str, Strategy] = dict(members(__name__, __path__, Strategy))
