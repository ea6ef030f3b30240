"""What subscribers changed in the arguments of a DataLoader, to be repeated at the next one."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Changes:
    """How the arguments of a loader were changed: values set, and names left out."""

    values: dict[str, Any]
    removed: tuple[str, ...]

    @classmethod
    def between(cls, before: dict[str, Any], after: dict[str, Any]) -> "Changes":
        """The difference of two sets of arguments, told by identity: values may not be comparable."""
        missing = object()
        values = {name: value for name, value in after.items() if before.get(name, missing) is not value}
        return cls(values, tuple(name for name in before if name not in after))

    def __bool__(self) -> bool:
        return bool(self.values or self.removed)

    def only(self, names: Collection[str]) -> "Changes":
        """Those of these arguments."""
        values = {name: value for name, value in self.values.items() if name in names}
        return Changes(values, tuple(name for name in self.removed if name in names))

    def without(self, names: Collection[str]) -> "Changes":
        """Those of all other arguments."""
        return self.only({*self.values, *self.removed} - {*names})

    def beside(self, other: "Changes") -> "Changes":
        """Both, of different arguments."""
        return Changes({**self.values, **other.values}, (*self.removed, *other.removed))

    def apply(self, arguments: dict[str, Any]) -> None:
        """Make the same changes; a batch size only where this loader may choose it."""
        fixed = arguments.get("batch_sampler") is not None or arguments.get("batch_size", 1) is None
        for name, value in self.values.items():
            if not (fixed and name == "batch_size"):
                arguments[name] = value
        for name in self.removed:
            arguments.pop(name, None)
