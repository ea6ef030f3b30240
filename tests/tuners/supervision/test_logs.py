"""The output of a trial is kept within bounds, its beginning and its end."""

import re
import sys
from pathlib import Path

import psutil
import pytest
from supervised import Supervised, an_end, stable, until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl"),
    pytest.mark.usefixtures("no_process_remains"),
]


def test_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.buffer.write(b'begin' + bytes(range(256)) * 40 + b'end')"
    assert stable(Supervised(tmp_path, code, "--cap", "100").end()) == an_end(exit_code=0)
    whole = b"begin" + bytes(range(256)) * 40 + b"end"
    cut = b"\n[... %d bytes cut ...]\n" % (len(whole) - 200)
    assert (tmp_path / "out").read_bytes() == whole[:100] + cut + whole[-100:]


@pytest.mark.slow
def test_two_hundred_megabytes_with_a_line_of_fifty_need_no_memory(tmp_path: Path) -> None:
    code = """
        import sys
        out = sys.stdout.buffer
        out.write(b'x' * 50_000_000)
        for _ in range(150): out.write(b'\\xff\\x00y' * 333_333 + b'\\n')
        out.flush()
        print('ready', file=sys.stderr, flush=True)
        sys.stdin.read()
        import time; time.sleep(0.3)
    """
    trial = Supervised(tmp_path, code)
    until(lambda: (tmp_path / "err").exists() and (tmp_path / "err").read_text() == "ready\n")
    assert psutil.Process(trial.process.pid).memory_info().rss < 40_000_000
    assert stable(trial.end()) == an_end(exit_code=0)
    kept = (tmp_path / "out").read_bytes()
    assert re.findall(rb"\[\.\.\. (\d+) bytes cut", kept) == [b"198000000"]
    assert kept.endswith(b"\xff\x00y\n") and len(kept) < 2_000_100


def test_one_file_for_both_streams_keeps_their_order(tmp_path: Path) -> None:
    code = "import os\nfor i in range(4): os.write(1 + i % 2, b'%d' % i)"
    trial = Supervised(tmp_path, code, "--stderr", str(tmp_path / "out"))
    assert stable(trial.end()) == an_end(exit_code=0)
    assert (tmp_path / "out").read_text() == "0123"


def test_a_full_disk_loses_output_but_not_the_trial(tmp_path: Path) -> None:
    trial = Supervised(tmp_path, "print('x' * 3_000_000); open('end', 'w')", "--stdout", "/dev/full")
    assert stable(trial.end()) == an_end(exit_code=0)
    assert (tmp_path / "end").exists()
