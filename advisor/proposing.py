"""What a worker measures next: each single change, then what Optuna's sampler proposes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from advisor.tuners.knob import Value
from advisor.tuners.space import Space

if TYPE_CHECKING:
    import optuna

TRIES = 30  # proposals of the sampler that are known already, before the group counts as converged

Config = dict[str, Value]


@dataclass(frozen=True)
class Proposer:
    """Proposals in one space. They depend on the seed, the trial's number and what was measured alone."""

    space: Space
    seed: int

    def propose(self, taken: set[str], measured: Sequence[tuple[Any, float]], number: int) -> Config | None:
        """A configuration that nobody has, or ``None`` when there is no more to try.

        Args:
            taken: Keys of configurations that were measured, run or wait.
            measured: Configurations as they were stored, and their values; foreign ones are left out.
            number: Of trials so far.
        """
        for config in (*self._singles(), *self._joint(measured, number)):
            if self.space.key(config) not in taken and self.space.check(config) is None:
                return config
        return next(self._rest(taken), None) if self.space.size <= TRIES**2 else None

    def _singles(self) -> Iterator[Config]:
        for name, values in self.space.choices.items():
            for value in values[1:]:
                yield self.space.complete({**self.space.present, name: value})

    def _joint(self, measured: Sequence[tuple[Any, float]], number: int) -> Iterator[Config]:
        """Made when the single changes are used up."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        if not self.space.choices:
            return
        sampler = optuna.samplers.TPESampler(seed=(self.seed + number) % 2**32)
        study, known = optuna.create_study(direction="maximize", sampler=sampler), self._distributions()
        for config, value in measured:
            if refusal(self.space, config) is None:
                params = {name: config[name] for name in self.space.choices}
                study.add_trial(optuna.trial.create_trial(params=params, distributions=known, value=value))
        for _ in range(TRIES):
            yield self.space.complete(study.ask(known).params)

    def _rest(self, taken: set[str]) -> Iterator[Config]:
        """What a small space still holds."""
        names = list(self.space.choices)
        for values in product(*self.space.choices.values()):
            config = self.space.complete(dict(zip(names, values, strict=True)))
            if self.space.key(config) not in taken and self.space.check(config) is None:
                yield config

    def _distributions(self) -> "dict[str, optuna.distributions.BaseDistribution]":
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(values) for name, values in self.space.choices.items()}


def refusal(space: Space, config: Any) -> str | None:
    """Why a configuration from a database is not run here; ``None`` when every part of it is known.

    Nothing in it is used before it was found in the space that this machine made of its own target.
    """
    if not isinstance(config, Mapping):
        return "it is no configuration"
    if set(config) != set(space.present):
        unknown = sorted(map(str, set(config) ^ set(space.present)))
        return f"other knobs than those of this machine's space: {', '.join(unknown[:5])}"
    for name, value in config.items():
        known = space.choices.get(name, [space.present[name]])
        if not any(type(value) is type(one) and value == one for one in known):
            return f"{name}={str(value)[:60]} is not in this machine's space"
    reason = space.check(config)
    if reason is None and space.complete(dict(config)) != dict(config):
        return "settings without effect beside the others are changed"
    return reason
