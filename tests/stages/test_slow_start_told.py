"""What is said of a program that takes no step in time."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from advisor.stages.target_failures import target_error
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.supervision.failures import Failure

LATE = Failure("timeout", "no answer for 180 s in phase start")


def said(folder: Path) -> str:
    return target_error(LATE, cast("Running", SimpleNamespace(folder=folder))).message


def test_it_is_said_where_the_program_was(tmp_path: Path) -> None:
    (tmp_path / "stacks.txt").write_text(
        "Current thread 0x2 (most recent call first):\n"
        '  File "/u/gpt.py", line 58 in estimate_loss\n  File "/u/gpt.py", line 210 in <module>\n'
    )
    assert said(tmp_path).endswith("it trains nothing; it was at gpt.py:210, gpt.py:58 in estimate_loss")


def test_without_a_stack_the_rest_is_said(tmp_path: Path) -> None:
    assert said(tmp_path).endswith("its start takes longer, or it trains nothing")
