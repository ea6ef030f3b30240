"""Record the profiles of the programs of field situations: `python tests/field/record_field.py [NAME ...]`.

Each program is profiled twice, with its fault and repaired, and both profiles are stored in ``recorded``,
where `make test` judges them by every rule. Without names all are recorded.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "planted"))

from answers import complaint, spared
from programs import HERE as PLANTED
from recordings import recorded_profile, recording, said_of
from situations import LIMIT_S, REPAIRED, SITUATIONS, Situation, command, recording_of

from advisor.profiles.facts.profile_json import from_json


def record(situation: Situation, *arguments: str) -> str:
    """Profile one form of a program and store what was seen; what the rules get wrong of it, if anything."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "profile.json")
        here = Path(folder, "here")
        here.mkdir()
        tool = [sys.executable, str(PLANTED / "profile_kept.py"), str(kept), *command(situation, *arguments)]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where torchrun lies
        done = subprocess.run(
            tool, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=here,
            env={**os.environ, "PATH": path},
        )  # fmt: skip
        if done.returncode:
            return f"{(done.stderr or done.stdout)[-500:]}"
        profile = from_json(json.loads(kept.read_text()))
    text = recording(situation.path, profile)
    place = recording_of(situation, *arguments)
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    result = said_of(recorded_profile(situation.path, text))
    return spared(situation, result) if arguments else complaint(situation, result)


for each in SITUATIONS:
    if each.program in sys.argv[1:] or not sys.argv[1:]:
        for form in ((), (REPAIRED,)):
            print(f"{each.program} {' '.join(form)}: {record(each, *form) or 'as it should be'}", flush=True)
