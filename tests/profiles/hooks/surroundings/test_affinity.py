import os
import subprocess
import sys

import pytest

CODE = """
import os
from advisor.profiles.hooks.surroundings.affinity import Affinity
affinity = Affinity()
affinity.install()
code = compile("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})", "/home/me/train.py", "exec")
exec(code, {"os": os, "__name__": "train"})
facts = affinity.facts()
print(facts.cpus_given, facts.cpus_left, facts.bound_at)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_process_that_binds_itself_is_seen_with_the_line() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    given = len(os.sched_getaffinity(0))
    assert done.stdout.split() == [str(given), "1", "/home/me/train.py:1"]
