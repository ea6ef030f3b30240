"""Children that are forked instead of started are what started ones are."""

import os
import signal
from pathlib import Path

from supervised import until
from warm import Warm

COMPUTES = "import sys, torch; print(torch.mm(torch.ones(64, 64), torch.ones(64, 64)).sum().item(), sys.argv)"


def test_code_a_file_and_a_module_run_as_main_with_their_arguments(warm: Warm, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("name = 'beside'\n")
    (tmp_path / "main.py").write_text("import sys, beside\nprint(__name__, beside.name, sys.argv[1:])\n")
    assert warm.run("-c", COMPUTES, "a").stdout == "262144.0 ['-c', 'a']\n"
    assert warm.run(tmp_path / "main.py", "b").stdout == "__main__ beside ['b']\n"
    assert warm.run("-m", "main", "c", cwd=tmp_path).stdout == "__main__ beside ['c']\n"


def test_folder_environment_input_and_exit_code_are_their_own(warm: Warm, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"typed\n")
    code = "import os, sys\nprint(os.getcwd(), os.environ['MINE'], input())\nsys.exit(7)"
    run = warm.run("-c", code, cwd=tmp_path, env={"MINE": "yes"}, stdin=read)
    assert (run.returncode, run.stdout) == (7, f"{tmp_path} yes typed\n")
    failed = warm.run("-c", "raise ValueError('mine')")
    assert failed.returncode == 1 and failed.stderr.endswith("ValueError: mine\n")
    os.close(read)
    os.close(write)


def test_several_live_at_once_and_end_by_their_own_signals(warm: Warm) -> None:
    waits = "import signal\nprint('here', flush=True)\nsignal.pause()"
    first, second = warm.start("-c", waits), warm.start("-c", waits)
    until(lambda: first.said()[0] == second.said()[0] == "here\n", 30.0)
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == -signal.SIGTERM and first.poll() is None
    first.send_signal(signal.SIGINT)
    assert first.wait(60) != 0 and "KeyboardInterrupt" in first.said()[1]
