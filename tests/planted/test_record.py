"""What is expected of a planted program, and which of two looks at it is stored."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import record
import recordings
from builders import a_machine, a_profile, a_window
from programs import CLEAN, FAULTS, complaint, told_before

from advisor.profiles.facts.observed import HostFacts
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.facts.rates import Rates

DEBUGGING = next(path for path in FAULTS if path.stem.startswith("debug_mode"))
AMP = next(path for path in FAULTS if path.stem.startswith("amp_unused"))
BFLOAT16 = next(path for path in CLEAN if path.stem == "bfloat16_transformer")
QUIET = a_profile(
    run=RunFacts(debug=("anomaly",)), host=HostFacts(other_cpus=0.0), window=a_window(), rates=Rates()
)
DISTURBED = replace(QUIET, host=HostFacts(other_cpus=1.5))
WITHOUT_FAULT = replace(QUIET, run=RunFacts())


def a_result(*rules: str, state: str = "opportunity", bf16: float = 2.0, **fields: Any) -> dict[str, Any]:
    finding = {"state": state, "kind": "waste", "severity": "high", "title": "much time", **fields}
    findings = [{**finding, "rule": rule} for rule in rules]
    return {"findings": findings, "machine": a_machine(bf16_speedup=bf16).as_json()}


@pytest.mark.parametrize(
    ("path", "result", "wrong"),
    [
        (DEBUGGING, a_result("debug_mode"), ""),
        (DEBUGGING, a_result("input_bound", "debug_mode"), ""),
        (DEBUGGING, a_result("input_bound"), "high waste input_bound: much time"),
        (DEBUGGING, a_result("debug_mode", state="passed"), "nothing"),
        (DEBUGGING, a_result("debug_mode", state="error"), "high waste debug_mode: much time"),
        (CLEAN[0], a_result(), ""),
        (CLEAN[0], a_result("input_bound"), "high waste input_bound: much time"),
        (CLEAN[0], a_result("input_bound", severity="low"), ""),
        (CLEAN[0], a_result("fp32_matmul", kind="headroom"), ""),
        (CLEAN[0], a_result("other_load", "throttled", kind="risk"), ""),
        (CLEAN[0], a_result("input_bound", state="error"), "high waste input_bound: much time"),
        (AMP, a_result(), "nothing"),
        (AMP, a_result("amp_unused", kind="headroom"), ""),
        (AMP, a_result(bf16=0.1), ""),
        (AMP, a_result("input_bound", bf16=0.1), "high waste input_bound: much time"),
        (BFLOAT16, a_result(), ""),
        (BFLOAT16, a_result("amp_without_gain"), "high waste amp_without_gain: much time"),
        (BFLOAT16, a_result("amp_without_gain", bf16=0.1), ""),
        (BFLOAT16, a_result(bf16=0.1), "nothing"),
    ],
)
def test_what_is_wrong_with_what_was_said(path: Path, result: dict[str, Any], wrong: str) -> None:
    assert complaint(path, result) == wrong


def test_what_was_told_before_the_fault() -> None:
    assert not told_before(DEBUGGING, a_result("debug_mode", "input_bound"))
    assert told_before(DEBUGGING, a_result("input_bound", "debug_mode")).startswith("high waste input_bound")
    assert told_before(DEBUGGING, a_result()) == "nothing"
    assert not told_before(DEBUGGING, a_result("input_bound", "debug_mode", kind="headroom"))


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Profile]]:
    """Sets what looks at any program see, in turn; what is left of it was not asked for."""
    monkeypatch.setattr(recordings, "RECORDED", tmp_path / "recorded")

    def see(*profiles: Profile) -> list[Profile]:
        left = list(profiles)
        monkeypatch.setattr(record, "look_at", lambda path: left.pop(0))
        return left

    return see


@pytest.mark.parametrize(
    ("seen", "stored", "left"),
    [
        ((QUIET, DISTURBED), QUIET, 1),
        ((DISTURBED, QUIET), QUIET, 0),
        ((DISTURBED, WITHOUT_FAULT), DISTURBED, 0),
        ((WITHOUT_FAULT, DISTURBED), DISTURBED, 0),
        ((replace(QUIET, window=None), DISTURBED), replace(QUIET, window=None), 0),
    ],
    ids=["quiet", "second quiet", "second refused", "first refused", "neither complete nor quiet"],
)
def test_the_better_of_two_looks_is_stored(
    looks: Callable[..., list[Profile]], seen: tuple[Profile, ...], stored: Profile, left: int
) -> None:
    rest = looks(*seen)
    became, reason = record.record(DEBUGGING)
    assert became.startswith("recorded, ") and not reason
    assert ("; " in became) == (stored is not QUIET)
    assert record.recorded(DEBUGGING) == stored
    assert len(rest) == left


def test_what_the_expectations_reject_is_not_stored(looks: Callable[..., list[Profile]]) -> None:
    looks(WITHOUT_FAULT, WITHOUT_FAULT)
    became, reason = record.record(DEBUGGING)
    assert became == "refused" and reason.startswith("look 1: ") and "\nlook 2: " in reason
    assert record.recorded(DEBUGGING) is None
