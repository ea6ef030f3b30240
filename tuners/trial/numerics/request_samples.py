"""Requests for several samples, such as a batch, taken apart where each is answered as if it were alone."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.tuners.accuracy.agreement import agreement
from advisor.tuners.accuracy.outputs import flattened
from advisor.tuners.accuracy.validity import invalid
from advisor.tuners.trial.numerics.kept_outputs import KeptOutputs, digest, plain
from advisor.workloads.gathering import taken_apart

ALONE = 1e-3
"""Relative difference of what some samples are answered alone: other shapes sum in another order."""
AT_ENDS = 4  # of so many parts of a batch the first and the last are left out to see whether others need them


@dataclass
class RequestSamples:
    """The same answers as those of requests, one for each sample.

    Attributes:
        most: Samples that are kept.
        kept: What each is answered. A sample is named by its content, whatever it came together with.
        whole: A request was met that cannot be taken apart, so nothing of this counts.
        several: Requests had more than one sample.
    """

    most: int
    kept: KeptOutputs = field(default_factory=KeptOutputs)
    whole: bool = False
    several: bool = False
    _came: Counter[str] = field(default_factory=Counter)
    _last: dict[str, tuple[Any, Any, Any, int]] = field(default_factory=dict)

    @property
    def enough(self) -> bool:
        """No more are kept."""
        return not self.whole and len(self.kept.keys) >= self.most

    def names(self, args: Any, kwargs: Any) -> list[str]:
        """What each sample that is to be kept asks; to be read before a program writes into it."""
        count = 0 if self.whole else samples_asked(args, kwargs) or 0
        rows = (slice(place, place + 1) for place in range(min(count, self.most - len(self.kept.keys))))
        return [digest((_chosen(args, count, row), _chosen(kwargs, count, row))) for row in rows]

    def add(self, kind: str, args: Any, kwargs: Any, output: Any, names: Sequence[str]) -> None:
        """Keep what a request answered to each of its samples, as ``names`` has named them."""
        if self.whole or self.enough:
            return
        count = samples_asked(args, kwargs)
        parts = None if count is None else taken_apart(output, count)
        if count is None or parts is None:
            self.whole, self.kept = True, KeptOutputs()
            self._last.clear()
            return
        for name, part in zip(names, parts, strict=False):
            self._came[name] += 1
            self.kept.add(f"{name}-{self._came[name]}", part, name)
        if count > 1:
            self.several, self._last[kind] = True, (args, kwargs, plain(output), count)

    def apart(self, asks: Mapping[str, Callable[..., Any]]) -> bool:
        """Whether some samples of the last requests are answered alone what they were answered among others.

        A sequence without a batch looks like one, and a layer that mixes samples gives as many answers.

        Args:
            asks: By kind of request, what has one answered.
        """
        return self.several and all(_alone(asks[kind], *last) for kind, last in self._last.items())


def _alone(ask: Callable[..., Any], args: Any, kwargs: Any, output: Any, count: int) -> bool:
    end = count // AT_ENDS
    chosen = slice(end, count - end) if end else slice(count - 1, count)
    among = taken_apart(output, count)
    try:
        answered = ask(*_chosen(args, count, chosen), **_chosen(kwargs, count, chosen))
        alone = taken_apart(plain(answered), chosen.stop - chosen.start)
    except Exception:  # of the program's own code: whatever it raises, it is left as it is
        return False
    if among is None or alone is None:
        return False
    own, other = [flattened(each) for each in among[chosen]], [flattened(each) for each in alone]
    if invalid(own, other):
        return False
    found = agreement(own, other)
    return found.relative_rms <= ALONE and not found.other_values


def samples_asked(args: Any, kwargs: Any) -> int | None:
    """Samples of a request: the length of its first tensor or list; ``None`` where it has neither."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Mapping):
            inner = samples_asked((), value)
            if inner is not None:
                return inner
        elif isinstance(value, list) or (hasattr(value, "detach") and value.dim()):
            return len(value) or None
    return None


def _chosen(value: Any, count: int, chosen: slice) -> Any:
    """The same for some samples: a part of each tensor and list that has one entry for each sample."""
    if isinstance(value, Mapping):
        return {name: _chosen(part, count, chosen) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_chosen(part, count, chosen) for part in value)
    if isinstance(value, list) or (hasattr(value, "detach") and value.dim()):
        return value[chosen] if len(value) == count else value
    return value
