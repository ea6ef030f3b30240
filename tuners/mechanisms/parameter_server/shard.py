"""Keys that a server holds together: their values, their optimizer, and when gradients become an update."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING, Any

from advisor.tuners.mechanisms.parameter_server.keys import Key, pack, runs
from advisor.tuners.strategy import Build

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter
    from torch.optim import Optimizer

Settings = list[dict[str, Any]]


@dataclass
class Push:
    """The gradients of one step of one worker.

    Attributes:
        worker: Its rank.
        step: How many pushes it has made, this one included.
        base: The version that it computed on.
        gradients: By position of the key; keys without one got no gradient.
        held: Whether the update waits for ``Shard.scale``.
    """

    worker: int
    step: int
    base: int
    gradients: dict[int, "Tensor"] = field(default_factory=dict)
    held: bool = False


class Shard:
    """Some keys, in one version: the number of updates made.

    With a staleness of 0 an update waits for the gradients of all workers and is made with their mean.
    Otherwise every push is an update at once, and a worker whose step is more than ``staleness`` ahead of the
    slowest worker's is not served until that one has caught up.

    Args:
        name: Of the shard.
        keys: What it holds.
        build: Makes the program's optimizer for parameters.
        workers: Ranks of all workers.
        staleness: Most steps that a worker may be ahead when it is served; ``None`` for any number.

    Attributes:
        version: Updates made; -1 before there are values.
        updates: Updates made here, not by a server that was lost.
        staleness: How many steps the fastest worker was ahead of gradients when they were used, and how
            often; never more than the bound.
        ages: How many updates lay between the values that gradients were computed on and their use.
        dropped: Pushes left out, since a server that was lost had used them.
        left: Workers that are gone.
        newest: The newest version that any worker has told of.
        began: The version that updates here began from.
        kept: The version that the restored state of the optimizer belongs to.
    """

    def __init__(
        self, name: str, keys: Sequence[Key], build: Build, workers: Iterable[int], staleness: int | None
    ) -> None:
        import torch

        self.name = name
        self.keys = list(keys)
        self.parameters = [
            torch.nn.Parameter(torch.zeros(key.shape, dtype=getattr(torch, key.dtype))) for key in keys
        ]
        self.optimizer = build(self.parameters)
        self.version = -1
        self.updates = 0
        self.staleness: Counter[int] = Counter()
        self.ages: Counter[int] = Counter()
        self.dropped = 0
        self.left: set[int] = set()
        self.newest = -1
        self.began = -1
        self.kept: int | None = None
        self._workers = set(workers)
        self._bound = staleness
        self._groups = _regroup(self.optimizer, self.parameters, self.keys)
        self._steps: dict[int, int] = {}  # of workers that hold the keys
        self._pending: dict[int, Push] = {}
        self._mean: list[Tensor | None] | None = None  # of pushes that wait to be scaled
        self._norm: tuple[int, float] | None = None  # kept after the update, for workers that ask late
        self._factor: tuple[int, float] | None = None
        self._packed: list[tuple[list[int], Tensor]] | None = None

    def adopt(self, worker: int, step: int, version: int, values: Sequence["Tensor"]) -> None:
        """Begin with a worker's values, unless newer ones are there or updates have been made.

        Args:
            worker: Its rank.
            step: How many pushes it has made.
            version: Of the values.
            values: Of all keys.
        """
        import torch

        self._steps[worker] = step
        self.newest = max(self.newest, version)
        if version <= self.version or self.updates:
            return
        with torch.no_grad():
            for parameter, value in zip(self.parameters, values, strict=True):
                parameter.copy_(value)
        self.version = self.began = version
        self._made()

    def configure(self, settings: Settings) -> None:
        """Take the hyperparameters of the program's parameter groups, such as the learning rate now."""
        for group, ordinal in zip(self.optimizer.param_groups, self._groups, strict=True):
            for name, value in settings[ordinal].items():
                _set(group, name, value)

    def push(self, push: Push) -> None:
        """Take a worker's gradients; what can be updated now is.

        Raises:
            ValueError: The worker has not asked for what its last push led to, or the update is to be scaled
                though it is not that of all workers.
        """
        if push.worker in self._pending:
            raise ValueError(f"worker {push.worker} pushed twice without a pull")
        if push.held and self._bound != 0:
            raise ValueError("only the mean of all workers can be scaled, which staleness 0 makes")
        self._steps[push.worker] = push.step
        if self._bound == 0 and push.base < self.version:
            self.dropped += 1
            return
        self._pending[push.worker] = push
        self._advance()

    def leave(self, worker: int) -> None:
        """A worker is gone: nobody waits for it, or everybody in vain (``broken``)."""
        self.left.add(worker)
        self._steps.pop(worker, None)

    def norm_squared(self, base: int) -> float | None:
        """Squared norm of the mean of the gradients on a version; ``None`` while some are missing.

        Zero where that update was made by a server that was lost: it will not be made again.
        """
        if self._norm is not None and self._norm[0] == base:
            return self._norm[1]
        return 0.0 if base < self.version else None

    def scale(self, version: int, factor: float) -> None:
        """Multiply the mean of gradients that were computed on ``version``, and update with it."""
        self._factor = (version, factor)
        self._advance()

    def can_serve(self, worker: int, at_least: int) -> bool:
        """Whether a worker may have the values: its own push is part of them, and it is not too far ahead."""
        if worker in self._pending or self.version < at_least:
            return False
        return not self._bound or self._lead(worker) <= self._bound

    @property
    def broken(self) -> bool:
        """Whether an update that needs every worker can no longer be made."""
        return self._bound == 0 and bool(self.left)

    def packed(self, limit: int) -> "list[tuple[list[int], Tensor]]":
        """All values in messages of at most ``limit`` bytes, packed once per version."""
        if self._packed is None:
            self._packed = [self.packed_keys(run) for run in self.positions(range(len(self.keys)), limit)]
        return self._packed

    def packed_keys(self, positions: list[int]) -> "tuple[list[int], Tensor]":
        """The values of these keys."""
        keys, values = [self.keys[at] for at in positions], [self.parameters[at] for at in positions]
        return positions, pack(keys, values)

    def positions(self, positions: Iterable[int], limit: int) -> list[list[int]]:
        """Positions of keys, cut into messages."""
        chosen = [self.keys[at] for at in positions]
        at = {key.name: position for position, key in enumerate(self.keys)}
        return [[at[key.name] for key in run] for run in runs(chosen, limit)]

    def state(self) -> dict[str, dict[str, Any]]:
        """The optimizer's state by name of the key; empty for an optimizer without one."""
        pairs = zip(self.keys, self.parameters, strict=True)
        return {key.name: dict(self.optimizer.state[p]) for key, p in pairs if self.optimizer.state.get(p)}

    def restore(self, version: int, state: dict[str, dict[str, Any]]) -> None:
        """Take the state that another server's optimizer had at a version."""
        self.kept = version
        for key, parameter in zip(self.keys, self.parameters, strict=True):
            if key.name in state:
                self.optimizer.state[parameter].update(state[key.name])

    def _lead(self, worker: int) -> float:
        """Steps that a worker is ahead of the slowest; any number while one of them is not known."""
        if self._workers - self.left - self._steps.keys():
            return float("inf")
        return self._steps[worker] - min(self._steps.values())

    def _advance(self) -> None:
        """Update with what waits, unless it must go on waiting."""
        if not self._pending or (self._bound == 0 and self._pending.keys() != self._workers):
            return
        if self._mean is None:
            self._mean = self._means()
        factor = 1.0
        if any(push.held for push in self._pending.values()):
            if self._norm is None or self._norm[0] != self.version:
                self._norm = (self.version, _squared(self._mean))
            if self._factor is None or self._factor[0] != self.version:
                return
            factor = self._factor[1]
        self._update(self._mean, factor)

    def _means(self) -> "list[Tensor | None]":
        """Mean gradient of each key over the pushes; a push without one counts as zero."""
        pushes = [self._pending[worker] for worker in sorted(self._pending)]
        means: list[Tensor | None] = []
        for at in range(len(self.keys)):
            parts = [push.gradients[at] for push in pushes if at in push.gradients]
            if parts and len(pushes) > 1:
                for part in parts[1:]:
                    parts[0].add_(part)
                parts[0].div_(len(pushes))
            means.append(parts[0] if parts else None)
        return means

    def _update(self, means: "list[Tensor | None]", factor: float) -> None:
        for parameter, mean in zip(self.parameters, means, strict=True):
            parameter.grad = mean if mean is None or factor == 1.0 else mean.mul_(factor)
        self.optimizer.step()
        for parameter in self.parameters:
            parameter.grad = None
        fastest = max(self._steps.values())
        self.staleness.update(fastest - push.step for push in self._pending.values())
        self.ages.update(self.version - push.base for push in self._pending.values())
        self.version += 1
        self.updates += 1
        self._made()

    def _made(self) -> None:
        self._pending.clear()
        self._mean = self._factor = self._packed = None


def _squared(tensors: "Iterable[Tensor | None]") -> float:
    import torch

    norms = [torch.linalg.vector_norm(each, dtype=torch.float64) for each in tensors if each is not None]
    return fsum(float(norm) ** 2 for norm in norms)


def plain_settings(groups: Iterable[dict[str, Any]]) -> Settings:
    """The hyperparameters of parameter groups, as JSON holds them."""
    return [
        {
            name: plain
            for name, value in group.items()
            if name not in BOUND_TO_DEVICE and (plain := _plain(value)) is not _NOT
        }
        for group in groups
    ]


_NOT = object()
BOUND_TO_DEVICE = ("params", "param_names", "capturable")  # of the worker's own tensors


def _plain(value: Any) -> Any:
    if getattr(value, "numel", lambda: 0)() == 1:
        return value.item()
    if isinstance(value, (tuple, list)) and all(isinstance(part, (int, float)) for part in value):
        return list(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else _NOT


def _set(group: dict[str, Any], name: str, value: Any) -> None:
    import torch

    present = group.get(name)
    if isinstance(present, torch.Tensor):
        group[name] = present.detach().clone().fill_(value)
    else:
        group[name] = tuple(value) if isinstance(value, list) else value


def _regroup(optimizer: "Optimizer", parameters: Sequence["Parameter"], keys: Sequence[Key]) -> list[int]:
    """Divide parameter groups so that each holds keys of one group of the program's optimizer.

    A program may group parameters by their order, which is another one here.

    Returns:
        The ordinal of that group for each.
    """
    ordinal = {id(parameter): key.group for parameter, key in zip(parameters, keys, strict=True)}
    groups, ordinals = [], list[int]()
    for group in optimizer.param_groups:
        for number in sorted({ordinal[id(parameter)] for parameter in group["params"]}):
            members = [parameter for parameter in group["params"] if ordinal[id(parameter)] == number]
            groups.append({**group, "params": members})
            ordinals.append(number)
    optimizer.param_groups[:] = groups
    return ordinals
