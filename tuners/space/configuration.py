"""One setting of every knob that a trial sets: the value that goes from the space to the store and back."""

import json
from collections.abc import Iterator, Mapping

from advisor.tuners.knob import Value


class Configuration(Mapping[str, Value]):
    """Values by knob; immutable, equal and hashed by content, in whatever order it was written."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)

    @classmethod
    def from_key(cls, key: str) -> "Configuration":
        """The configuration of a canonical text.

        Raises:
            ValueError: The text is not JSON.
        """
        return cls(json.loads(key))

    @property
    def key(self) -> str:
        """The canonical text, as it is stored: JSON with sorted names."""
        return json.dumps(self._values, sort_keys=True)

    def changed(self, present: Mapping[str, Value]) -> dict[str, Value]:
        """What it sets to something else than ``present`` does, in its own order."""
        return {name: value for name, value in self.items() if present.get(name) != value}

    def with_(self, values: Mapping[str, Value]) -> "Configuration":
        """The same with these values instead or in addition."""
        return Configuration({**self._values, **values})

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Configuration({self._values})"
