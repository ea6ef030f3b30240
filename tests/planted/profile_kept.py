"""``advisor`` with the arguments given, which also writes the profile that it judges to the first of them."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from advisor.advice.advise import advise
from advisor.advice.finding import Finding
from advisor.advice.rule import Rule
from advisor.cli import main
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.profile_json import as_json
from advisor.runs import profile as runs_profile

kept, *arguments = sys.argv[1:]


def kept_and_judged(profile: Profile, rules: Mapping[str, Rule]) -> list[Finding]:
    Path(kept).write_text(json.dumps(as_json(profile)))
    return advise(profile, rules)


with patch.object(runs_profile, "advise", kept_and_judged):
    sys.exit(main(arguments))
