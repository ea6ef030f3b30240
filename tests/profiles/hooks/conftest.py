"""Each test meets a process in which nothing has been compiled, whatever ran before it."""

import sys
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        utils.counters.clear()
