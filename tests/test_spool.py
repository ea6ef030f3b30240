"""Results that wait on this disk for a database."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from advisor.errors import EnvironmentProblem
from advisor.spool import Result, Spool


def a_result(number: int, **changes: Any) -> Result:
    plain: dict[str, Any] = {
        "study": "train", "fingerprint": "f1", "number": number, "fence": 1, "state": "complete",
        "value": 1.5, "trial": {"number": number, "config": {}},
    }  # fmt: skip
    return Result(**{**plain, **changes})


def test_what_was_kept_is_there_for_the_next_process_until_it_is_delivered(tmp_path: Path) -> None:
    Spool(tmp_path, "postgresql://db").keep(a_result(1))
    Spool(tmp_path, "postgresql://db").keep(a_result(2))
    sent: list[Result] = []
    assert Spool(tmp_path, "postgresql://db").deliver(sent.append) == 2
    assert sent == [a_result(1), a_result(2)]
    assert Spool(tmp_path, "postgresql://db").waiting() == []
    assert Spool(tmp_path, "postgresql://other").waiting() == []


def test_what_could_not_be_sent_waits_and_what_was_sent_does_not(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "db")
    for number in (1, 2, 3):
        spool.keep(a_result(number))

    def send(result: Result) -> None:
        if result.number == 2:
            raise EnvironmentProblem("away")

    with pytest.raises(EnvironmentProblem):
        spool.deliver(send)
    assert [result.number for result in spool.waiting()] == [2, 3]


def test_a_line_that_was_half_written_costs_only_itself(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "db")
    spool.keep(a_result(1))
    with spool.path.open("ab") as stream:
        stream.write(b'{"result": {"study": "tr')
    spool.keep(a_result(2))
    assert [result.number for result in spool.waiting()] == [1, 2]


@pytest.mark.parametrize("line", ["[]", '{"result": 1}', '{"result": {"study": 1}}', '{"delivered": [1]}'])
def test_foreign_lines_are_left_out(tmp_path: Path, line: str) -> None:
    spool = Spool(tmp_path, "db")
    spool.keep(a_result(1))
    with spool.path.open("a") as stream:
        stream.write(line + "\n")
    stranger = {**json.loads(json.dumps(a_result(3).__dict__)), "state": "sold"}
    with spool.path.open("a") as stream:
        stream.write(json.dumps({"result": stranger}) + "\n")
    assert [result.number for result in spool.waiting()] == [1]


def test_only_its_owner_reads_the_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "db")
    spool.keep(a_result(1))
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.path.parent.stat().st_mode) == 0o700


def test_a_disk_that_takes_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, "db")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvironmentProblem, match="cannot write") as failed:
        spool.keep(a_result(1))
    assert failed.value.cause == "No space left on device"
