"""The first compilation is the one with an empty cache, which the search has seen."""

import pytest
from confirmation_builder import confirmed, some_settings, told
from result_builder import a_result

from advisor.result import outlook

SETTINGS = some_settings("goodput", max_memory=2**20)


def test_a_confirmation_that_a_memory_limit_ends_still_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = confirmed(
        monkeypatch, SETTINGS, 0.05, peak_bytes=2**21, gate_s=4.0, compiled_s=lambda config: 28.3
    )
    assert outcome.verdict == "keep" and outcome.reason.endswith("exceeds 1 MiB")
    found, _ = told(outcome, SETTINGS)
    assert outlook.pays_back(a_result(recommendation=found)) == "28 s of compilation the first time"
