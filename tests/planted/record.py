"""Record the profiles of planted programs: `python tests/planted/record.py [NAME ...]`.

Each program is profiled as `make planted` does it, one after the other, and its profile is stored in
``recorded``, where `make test` judges it by every rule. Without names, programs whose present source is
recorded are passed over, so the command goes on where it was stopped. A profile of which the rules do not say
what they should is not stored. Wants a machine with nothing else running: where a look was disturbed or not
complete, or something else was told before the fault, a second one is taken, and the better of both stored.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from programs import (
    CLEAN,
    FAULTS,
    HEADROOM,
    HERE,
    LIMIT_S,
    LOOKS,
    complaint,
    options_of,
    rule_of,
    told_before,
)
from recordings import recorded_profile, recording, recording_of, said_of

from advisor.profiles.derived.disturbance import disturbances
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.profile_json import from_json


def recorded(path: Path) -> Profile | None:
    """The recorded profile of the program's present source, where there is one that can be read."""
    try:
        return recorded_profile(path, recording_of(path).read_text())
    except (FileNotFoundError, ValueError):
        return None


def look_at(path: Path) -> Profile:
    """The profile of one live run.

    Raises:
        ValueError: The run fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "profile.json")
        command = [
            sys.executable,
            str(HERE / "profile_kept.py"),
            str(kept),
            "profile",
            str(path),
            *options_of(path),
        ]
        here = Path(folder, "here")
        here.mkdir()
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=here)
        if done.returncode != 0:
            raise ValueError((done.stderr or done.stdout).strip()[-500:])
        return from_json(json.loads(kept.read_text()))


def doubt_about(path: Path, profile: Profile) -> str:
    """Why another look could give a better recording of a program; empty where there is no reason."""
    disturbed = disturbances(profile)
    if disturbed:
        return f"disturbed by {', '.join(disturbed)}"
    if profile.window is None or profile.rates is None:
        return "not complete"
    if path in FAULTS and rule_of(path) not in HEADROOM:
        before = told_before(path, said_of(profile))
        return f"told first: {before.splitlines()[0]}" if before else ""
    return ""


def record(path: Path) -> tuple[str, str]:
    """Profile one program and store what was seen.

    Returns:
        What became of it, in a line, and why nothing was stored; empty where something was.
    """
    stored, doubt, reasons = "", "", []
    for look in LOOKS:
        try:
            text = recording(path, look_at(path))
            profile = recorded_profile(path, text)  # judged as it will be read
            reason = complaint(path, said_of(profile))
        except (ValueError, subprocess.TimeoutExpired) as failed:
            reason = str(failed)
        if reason:
            reasons.append(f"look {look}: {reason}")
            continue
        seen = doubt_about(path, profile)
        if not stored or not seen:
            stored, doubt = text, seen
        if not doubt:
            break
    if not stored:
        return "refused", "\n".join(reasons)
    recording_of(path).parent.mkdir(exist_ok=True)
    recording_of(path).write_text(stored)
    return "; ".join(filter(None, (f"recorded, {len(stored) / 1000:.0f} kB", doubt))), ""


def main() -> int:
    """Record, a line a program; what was refused is told at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    programs = {path.stem: path for path in (*FAULTS, *CLEAN)}
    parser.add_argument("names", nargs="*", metavar="NAME", help="of programs to record anew")
    names = parser.parse_args().names
    unknown = [name for name in names if name not in programs]
    if unknown:
        parser.error(f"no such programs: {', '.join(unknown)}")
    refused = {}
    for name in names or programs:
        path, reason = programs[name], ""
        before = None if names else recorded(path)
        if before is None:
            became, reason = record(path)
        else:
            became = "; ".join(filter(None, ("is recorded", doubt_about(path, before))))
        print(f"{name}: {became}", flush=True)
        if reason:
            refused[name] = reason
    for name, reason in refused.items():
        print(f"\n{name} was not recorded:\n{reason}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
