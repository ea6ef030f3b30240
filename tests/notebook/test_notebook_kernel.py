"""``advisor`` in a real Jupyter kernel: progress, interrupts, errors without a traceback."""

import os
import queue
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from supervised import MARK, marked

PATIENCE_S = 120.0
SETUP = """
import torch, advisor
from torch.utils.data import TensorDataset
torch.set_num_threads(1)
model = torch.nn.Linear(8, 2)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(256, 8), torch.randint(2, (256,)))
given = dict(model=model, dataset=data, loss=torch.nn.functional.cross_entropy, optimizer=sgd, batch_size=16)
"""
SLOW = """
import time

def slow(found, wanted):
    time.sleep(0.3)
    return torch.nn.functional.cross_entropy(found, wanted)

"""
TUNE = 'result = advisor.tune(**given, knobs={"placebo": None, "num_threads": None}, budget="60s")'


class Kernel:
    """A kernel with what it sent while a cell ran."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient, mark: str) -> None:
        self.manager = manager
        self._client = client
        self._mark = mark
        self.messages: list[Any] = []

    def run(self, cell: str) -> str:
        """Run a cell to its end; the text that it printed."""
        self.start(cell)
        self.finish()
        return self.printed()

    def start(self, cell: str) -> None:
        self.messages = []
        self._cell = self._client.execute(cell)

    def wait_for(self, text: str) -> None:
        """Until a display holds ``text``."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(text in shown for shown in self.displays()):
            assert time.monotonic() < deadline, self.displays()
            assert not self._is_idle(), self.messages
            self._receive()

    def finish(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_idle():
            assert time.monotonic() < deadline, self.messages[-3:]
            self._receive()

    def displays(self) -> list[str]:
        """What the updating display has shown, one after another."""
        kinds = ("display_data", "update_display_data")
        return [each["content"]["data"]["text/plain"] for each in self.messages if each["msg_type"] in kinds]

    def printed(self) -> str:
        return "".join(each["content"]["text"] for each in self.messages if each["msg_type"] == "stream")

    def errors(self) -> list[str]:
        return [
            "\n".join(each["content"]["traceback"]) for each in self.messages if each["msg_type"] == "error"
        ]

    def nothing_is_left(self) -> None:
        """Of all that the kernel started; it is there itself."""
        deadline = time.monotonic() + PATIENCE_S
        while len(marked(self._mark)) > 1:
            assert time.monotonic() < deadline, marked(self._mark)
            time.sleep(0.2)

    def _is_idle(self) -> bool:
        return any(
            each["msg_type"] == "status" and each["content"]["execution_state"] == "idle"
            for each in self.messages
        )

    def _receive(self) -> None:
        try:
            message = self._client.get_iopub_msg(timeout=1.0)
        except queue.Empty:
            return
        if message["parent_header"].get("msg_id") == self._cell:
            self.messages.append(message)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for all tests, each of which leaves it as it was."""
    mark = uuid.uuid4().hex
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path_factory.mktemp("kernel")), env={**os.environ, MARK: mark})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        kernel = Kernel(manager, client, mark)
        kernel.run(SETUP)
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.slow
def test_a_wrong_call_is_an_error_without_a_traceback(kernel: Kernel) -> None:
    kernel.run("advisor.tune(model=model)")
    (shown,) = kernel.errors()
    assert shown.startswith("ArgumentError: tune() needs dataset, optimizer, loss (or step)\n  hint: ")
    assert "Traceback" not in shown


@pytest.mark.slow
def test_the_program_s_own_exception_comes_first(kernel: Kernel) -> None:
    kernel.run("advisor.tune(**{**given, 'model': torch.nn.Linear(9, 2)}, budget='30s')")
    (shown,) = kernel.errors()
    told = "TargetError: the baseline step fails: RuntimeError: mat1 and mat2 shapes cannot be multiplied"
    assert shown.startswith("Traceback (most recent call last)") and told in shown
    assert "advisor/notebook/tune.py" not in shown and "advisor/runs/tune.py" not in shown
    kernel.nothing_is_left()


@pytest.mark.long
@pytest.mark.slow
def test_an_interrupt_before_there_is_a_result_is_told_in_one_line(kernel: Kernel) -> None:
    kernel.start(SLOW + TUNE.replace("**given", "**{**given, 'loss': slow}"))
    kernel.wait_for("running it unchanged")
    kernel.manager.interrupt_kernel()
    kernel.finish()
    assert kernel.errors() == ["TargetError: interrupted before the baseline was measured"]
    assert kernel.run("print(1 + 1)") == "2\n"
    kernel.nothing_is_left()


@pytest.mark.slow
def test_an_interrupt_returns_the_partial_result_and_the_kernel_lives(kernel: Kernel) -> None:
    states = "print(hash(str([model.state_dict(), sgd.state_dict(), torch.get_rng_state().sum()])))"
    before = kernel.run(states)
    kernel.start('result = advisor.tune(**given, budget="1m")')  # with few knobs it may be over too soon
    kernel.wait_for("trial ")
    kernel.manager.interrupt_kernel()
    kernel.finish()
    assert kernel.errors() == []
    shown = kernel.displays()
    assert shown[0] != shown[-1] and "\x1b" not in "".join(shown)
    kinds = [each["msg_type"] for each in kernel.messages if "display" in each["msg_type"]]
    assert kinds[0] == "display_data" and set(kinds[1:]) == {"update_display_data"}
    found = kernel.run("print(result.data.budget.stopped_by, result.recommendation.verdict)")
    assert found == "interrupted keep\n"
    assert kernel.run(states) == before
    kernel.nothing_is_left()
