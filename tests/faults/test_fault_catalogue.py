"""The catalogue is whole, and names tests that are there."""

import ast
from pathlib import Path

import pytest
from catalogue import CASES, Case

TESTS = Path(__file__).parents[1]


OF_WORKERS = (42, 47, 70)  # numbers of what befell workers, which are gone


def test_every_fault_has_its_place() -> None:
    numbers = [number for number in range(73) if number not in OF_WORKERS]
    assert [case.name for case in CASES] == [f"F{number:02d}" for number in numbers]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fault_is_injected_by_tests_that_are_there_or_has_a_reason(case: Case) -> None:
    assert case.tests or case.reason
    for test in case.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((TESTS / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test
