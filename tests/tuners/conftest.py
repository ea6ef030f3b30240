"""What tests of processes share."""

import os
import signal
import uuid
from collections.abc import Iterator

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
