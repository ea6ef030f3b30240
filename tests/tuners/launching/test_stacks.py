"""Where a process was that did not answer."""

import sysconfig
from pathlib import Path

from advisor.tuners.launching import stacks
from advisor.tuners.launching.stacks import last_stack, own_calls

LIBRARY = f"{sysconfig.get_path('purelib')}/torch/nn/modules/module.py"
OURS = stacks.__file__


def wrote(folder: Path, *frames: str) -> Path:
    """The folder of a trial whose main thread was at these places, the innermost first."""
    lines = [f"  File {frame}" for frame in frames]
    other = ["Thread 0x1 (most recent call first):", '  File "/t/threading.py", line 3 in wait', ""]
    text = "\n".join([*other, "Current thread 0x2 (most recent call first):", *lines, ""])
    (folder / "stacks.txt").write_text(text)
    return folder


def test_the_innermost_place_of_the_main_thread_comes_first(tmp_path: Path) -> None:
    wrote(tmp_path, '"/u/train.py", line 14 in step', '"/a/loop.py", line 9 in train')
    assert last_stack(tmp_path) == ["/u/train.py:14", "/a/loop.py:9"]
    assert last_stack(tmp_path / "none") == []


def test_calls_of_the_user_are_told_from_the_outside(tmp_path: Path) -> None:
    folder = wrote(
        tmp_path,
        f'"{LIBRARY}", line 134 in forward',
        '"/u/gpt.py", line 119 in forward',
        f'"{LIBRARY}", line 1789 in _call_impl',
        '"/u/gpt.py", line 167 in forward',
        f'"{OURS}", line 12 in call',
        '"/u/gpt.py", line 58 in estimate_loss',
        '"/u/gpt.py", line 210 in <module>',
        f'"{OURS}", line 52 in run_file',
        '"<frozen runpy>", line 88 in _run_code',
    )
    assert own_calls(folder) == "gpt.py:210, gpt.py:58 in estimate_loss, gpt.py:167 in forward"


def test_a_process_that_wrote_no_stack_has_no_calls(tmp_path: Path) -> None:
    assert own_calls(tmp_path) == ""
