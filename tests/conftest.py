"""What tests share: no process is left behind, and nothing was compiled before."""

import os
import signal
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from supervised import MARK, marked


@pytest.fixture
def no_process_remains(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The mark of every process that the test starts; none may be left at its end."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield mark
    left = [(process.pid, process.cmdline()) for process in marked(mark)]
    for pid, _ in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        utils.counters.clear()
