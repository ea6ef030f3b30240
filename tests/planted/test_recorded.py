"""Every rule judges the recorded profile of every planted program, and says what it must of a live run."""

import json
from pathlib import Path

import pytest
from builders import a_profile
from programs import CLEAN, FAULTS, FIRST_SHARE, HEADROOM, complaint, rule_of, told_before
from recordings import COMMAND, FOLDERS, RECORDED, recorded_profile, recording, recording_of, said_of

from advisor.profiles.facts.observed import HotSpot, Location
from advisor.profiles.facts.profile import Profile

PROGRAMS = [*FAULTS, *CLEAN]
THERE = [path for path in PROGRAMS if recording_of(path).exists()]


def read(path: Path) -> Profile:
    """The recorded profile of a program; of its present source, or the test fails."""
    try:
        return recorded_profile(path, recording_of(path).read_text())
    except ValueError as error:
        pytest.fail(f"{error}: run `{COMMAND}`")


@pytest.mark.planted
def test_every_program_has_a_recording() -> None:
    missing = sorted({path.stem for path in PROGRAMS} - {path.stem for path in THERE})
    assert not missing, f"run `{COMMAND}`"


def test_every_recording_has_a_program() -> None:
    assert {path.stem for path in RECORDED.glob("*.json")} <= {path.stem for path in PROGRAMS}


@pytest.mark.parametrize("path", THERE, ids=lambda path: path.stem)
def test_a_recorded_program_is_judged_as_a_live_one(path: Path) -> None:
    reason = complaint(path, said_of(read(path)))
    assert not reason, reason


def test_the_fault_is_the_first_thing_that_is_told() -> None:
    judged = [path for path in THERE if path in FAULTS and rule_of(path) not in HEADROOM]
    missed = {path.stem: before for path in judged if (before := told_before(path, said_of(read(path))))}
    assert len(missed) <= (1 - FIRST_SHARE) * len(judged), missed


def test_a_recording_gives_back_the_profile_with_the_folders_of_this_machine(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import torch\n")
    files = [str(program), *(f"{folder}/deep/file.py" for folder in FOLDERS.values())]
    places = [Location(file, 3, "step") for file in files]
    profile = a_profile(hotspots=tuple(HotSpot("forward", place, 0.123456789) for place in places))
    text = recording(program, profile)
    assert not any(folder in text for folder in (str(program), *FOLDERS.values()))
    back = recorded_profile(program, text)
    assert [spot.location for spot in back.hotspots] == places
    assert {spot.share for spot in back.hotspots} == {0.123457}
    assert recording(program, back) == text


def test_a_recording_holds_no_other_path_of_this_machine(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import torch\n")
    for text in ("/etc/ssl/openssl.cnf", "read from /etc/ssl/openssl.cnf:3"):
        spot = HotSpot("forward", Location(text, 3), 0.5)
        with pytest.raises(ValueError, match=r"^paths of this machine: /etc/ssl/openssl\.cnf$"):
            recording(program, a_profile(hotspots=(spot,)))


def test_a_recording_of_another_source_or_version_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import torch\n")
    text = recording(program, a_profile())
    with pytest.raises(ValueError, match="version 0"):
        recorded_profile(program, json.dumps({**json.loads(text), "version": 0}))
    program.write_text("import torch  # changed\n")
    with pytest.raises(ValueError, match="the program has changed since it was recorded"):
        recorded_profile(program, text)
