"""``advisor`` with the arguments given, which also writes the profile that it judges to the first of them."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from advisor import profiling
from advisor.advise import advise
from advisor.cli import main
from advisor.finding import Finding
from advisor.profiles.profile import Profile
from advisor.profiles.profile_json import as_json
from advisor.rule import Rule

kept, *arguments = sys.argv[1:]


def kept_and_judged(profile: Profile, rules: Mapping[str, Rule]) -> list[Finding]:
    Path(kept).write_text(json.dumps(as_json(profile)))
    return advise(profile, rules)


with patch.object(profiling, "advise", kept_and_judged):
    sys.exit(main(arguments))
