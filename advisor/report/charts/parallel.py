"""How the processes of a trial train together: strategy, number of ranks, what that does to the numbers."""

from collections.abc import Mapping
from itertools import pairwise

from advisor.result.document import Document, Trial, Value
from advisor.tuners.knob import Semantics
from advisor.tuners.knobs import KNOBS
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.strategy_knob import StrategySetting

SINGLE = "single"


def strategy_of(config: Mapping[str, Value]) -> str:
    """Id of the strategy; ``single`` where none is named."""
    return str(config.get("strategy", SINGLE))


def count_of(trial: Trial) -> int:
    """Workers that trained; 1 for a process alone."""
    if strategy_of(trial.config) == SINGLE:
        return 1
    count = trial.config.get("ranks", 1) if trial.ranks is None else trial.ranks.count
    return max(1, count) if isinstance(count, int) else 1


def ranks_in_words(count: int) -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{count} rank{'' if count == 1 else 's'}"


def semantics_of(config: Mapping[str, Value]) -> Semantics | None:
    """What the strategy may do to the numbers under its settings; ``None`` for one of another version."""
    strategy = STRATEGIES.get(strategy_of(config))
    return None if strategy is None else strategy.meaning(config)


def changes_learning(config: Mapping[str, Value]) -> bool:
    """Whether what is learnt can differ under the strategy, so that it is not ranked with the others."""
    return semantics_of(config) is Semantics.TRAINING


def settings_of_strategies() -> set[str]:
    """Ids of the knobs that say how processes train together."""
    return {"strategy", "ranks"} | {name for name, knob in KNOBS.items() if isinstance(knob, StrategySetting)}


def own_devices(result: Document) -> bool:
    """Whether each rank had a GPU of its own; otherwise all trials had the same CPUs."""
    if not result.machine.get("gpus"):
        return False
    own = result.command[: result.command.index("--")] if "--" in result.command else result.command
    follow = [after for option, after in pairwise(own) if option == "--device"]
    return "cpu" not in follow and "--device=cpu" not in own


def ran(trial: Trial) -> bool:
    """Whether it was measured with its strategy, which a model can refuse only when it is there."""
    return trial.state != "failed" and not {"strategy", "ranks"} & trial.refused.keys()
