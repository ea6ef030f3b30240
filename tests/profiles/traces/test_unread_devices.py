"""Traces of devices of which nothing is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.result.document import ProfileData
from advisor.runs.profile_traces import profile_traces


def _event(category: str, name: str, begin: float, length: float, pid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": pid, "ts": begin, "dur": length}


@pytest.fixture
def traced(tmp_path: Path) -> ProfileData:
    """Four steps, half of which the host spends on an update by one parameter after the other."""
    events = []
    for begin in range(0, 4000, 1000):
        events += [
            _event("user_annotation", f"ProfilerStep#{begin // 1000}", begin, 1000),
            _event("user_annotation", "Optimizer.step#AdamW.step", begin + 500, 490),
            _event("cpu_op", "aten::linear", begin + 10, 200),
            _event("mtia_runtime", "runFunction", begin + 50, 10),
            _event("mtia_ccp_events", "fc-dtype_Float", begin + 60, 300, pid=9),
            *(_event("cpu_op", "aten::add_", begin + 510 + 10 * at, 9) for at in range(40)),
        ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return profile_traces([path], ("profile",))


def test_the_events_of_an_unread_device_are_named(traced: ProfileData) -> None:
    notes = " ".join(traced.profile.notes)
    assert "4 events of a device that is not read: mtia_ccp_events" in notes


def test_no_advice_rests_on_what_a_host_spends_beside_a_device_that_nobody_saw(traced: ProfileData) -> None:
    assert not [each.rule for each in traced.findings if each.state in ("opportunity", "diagnostic")]
    (update,) = [each for each in traced.findings if each.rule == "optimizer_bound"]
    assert update.state == "not_applicable" and "no event of it was read" in update.title
    assert traced.profile.summary.endswith("no event of a device was recorded")
