import multiprocessing
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from advisor.profiles.hooks.surroundings.company import company, cpu_seconds

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
SPIN = "import time\nend = time.time() + 20\nwhile time.time() < end: pass"


def test_busy_threads_and_children_are_told_by_name_and_idle_ones_not() -> None:
    stopped = threading.Event()

    def spin() -> None:
        while not stopped.is_set():
            sum(range(1000))

    threads = [
        threading.Thread(target=spin, name="reader"),
        threading.Thread(target=stopped.wait, name="idle"),
    ]
    child = subprocess.Popen([sys.executable, "-c", SPIN])
    named = multiprocessing.get_context("fork").Process(target=spin, name="scorer", daemon=True)
    named.start()
    try:
        for thread in threads:
            thread.start()
        before, began = cpu_seconds(), time.perf_counter()
        time.sleep(1.5)
        found = company(before, cpu_seconds(), time.perf_counter() - began)
    finally:
        stopped.set()
        named.kill()
        child.kill()
        child.wait()
        for thread in threads:
            thread.join()
    assert [name for name, _ in found["threads"]] == ["reader"]
    assert any(name == "scorer" for name, _ in found["children"])
    assert any("python" in name for name, _ in found["children"])
    assert len(found["training"]) == 1
