"""What several subscribers put around one event."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from advisor.profiles.events import Run


class Around:
    """Notes when its context is entered and left; fails there if it is told to, or has none to give."""

    layer = 0

    def __init__(self, name: str, notes: list[str]) -> None:
        self._name = name
        self._notes = notes

    def prepare(self, config: Any, present: Any) -> None:
        """Nothing depends on other settings."""

    def step(self, optimizer: Any, value: str) -> AbstractContextManager[None] | None:
        return None if value == "none" else self._context(fails=value == "fails")

    @contextmanager
    def _context(self, *, fails: bool) -> Iterator[None]:
        if fails:
            raise KeyError(self._name)
        self._notes.append(f"into {self._name}")
        try:
            yield
        finally:
            self._notes.append(f"out of {self._name}")


def a_run(notes: list[str], **values: str) -> Run:
    run = Run({name: Around(name, notes) for name in values}, dict.fromkeys(values, "off"))
    run.configure(values)
    return run


OPTIMIZER: Any = object()


@pytest.mark.parametrize(
    ("values", "noted"),
    [
        ({"a": "off"}, ["inside"]),
        ({"a": "none", "b": "none"}, ["inside"]),
        ({"a": "none", "b": "on"}, ["into b", "inside", "out of b"]),
        ({"a": "on", "b": "on"}, ["into a", "into b", "inside", "out of b", "out of a"]),
    ],
)
def test_contexts_are_entered_in_order_and_left_in_reverse(values: dict[str, str], noted: list[str]) -> None:
    notes: list[str] = []
    run = a_run(notes, **values)
    for _ in range(2):
        notes.clear()
        with run.step(OPTIMIZER):
            notes.append("inside")
        assert notes == noted


def test_what_fails_inside_leaves_all_contexts() -> None:
    notes: list[str] = []
    with pytest.raises(ZeroDivisionError), a_run(notes, a="on", b="on").step(OPTIMIZER):
        raise ZeroDivisionError
    assert notes[-2:] == ["out of b", "out of a"]


def test_a_context_that_cannot_be_entered_leaves_those_before_it() -> None:
    notes: list[str] = []
    with pytest.raises(KeyError), a_run(notes, a="on", b="fails").step(OPTIMIZER):
        notes.append("inside")
    assert notes == ["into a", "out of a"]
