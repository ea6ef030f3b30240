"""What all documents begin with."""

import json
from typing import Any

import pytest

import advisor
from advisor.base.settings import TargetRequest
from advisor.result.apply import ApplyData
from advisor.result.document import Budget, ProfileData, ProfileSummary
from advisor.result.header import Target, header, header_of_run, target_of

REQUEST = TargetRequest(kind="script", name="é.py", args=("--token", "s3cret", "--data", "/data"))


def a_profile(**machine: Any) -> ProfileData:
    return ProfileData(
        **header_of_run(
            ("profile", "é.py", "--token", "s3cret"),
            target_of(REQUEST, digest="d", launches=2),
            {"fingerprint": "f", **machine},
            seed=3,
        ),
        profile=ProfileSummary(phases_ms={}),
        budget=Budget(seconds=1.0, trials=0, stopped_by="converged"),
    )


def test_a_run_tells_what_was_run_and_by_what_and_hides_secrets() -> None:
    found = a_profile()
    assert (found.schema_version, found.advisor_version, found.seed) == (1, advisor.__version__, 3)
    assert found.created.endswith("+00:00")
    assert (found.target.kind, found.target.digest, found.target.launches) == ("script", "d", 2)
    assert "s3cret" not in found.to_json() and "/data" in found.target.args


def test_no_document_holds_what_json_lacks() -> None:
    text = a_profile(load=float("nan"), name="\udcff").to_json()
    machine = json.loads(text, parse_constant=pytest.fail)["machine"]
    assert (machine["load"], machine["name"]) == (None, "\\xff")
    assert "é.py" in text


def test_what_is_only_printed_can_be_carried_by_any_stream() -> None:
    target = Target(path="é.py", kind="script")
    text = ApplyData(**header(), target=target, status="nothing", file="\udcff.py").to_json()
    assert text.isascii()
    assert json.loads(text)["target"]["path"] == "é.py" and json.loads(text)["file"] == "\\xff.py"
