"""What a function calls is found by the names in its code, as far as they lead to code of the user's."""

import functools
import json
from typing import Any

from advisor.profiles.hooks.surroundings.reachable import names_below


def update(model: Any) -> int:
    model.backward()
    return 0


class Learner:
    def __init__(self) -> None:
        self.prepare()

    def run(self) -> None:
        sorted((2, 1), key=lambda each: update(each))

    def unused(self) -> None:
        [3, 2].sort()

    def prepare(self) -> None: ...


def work(rank: int) -> None:
    Learner().run()
    json.dumps(rank)


def test_functions_and_methods_that_are_named_are_followed() -> None:
    assert {"run", "prepare", "backward", "dumps"} <= names_below(work)
    assert "sort" not in names_below(work)


def test_a_bound_method_and_a_partial_are_looked_through() -> None:
    assert "backward" in names_below(Learner().run)
    assert "backward" in names_below(functools.partial(work, 0))


def test_code_of_libraries_is_not_followed() -> None:
    assert "_default_encoder" not in names_below(work)


def test_what_has_no_code_has_no_names() -> None:
    assert names_below(len) == names_below(Learner) == set()
