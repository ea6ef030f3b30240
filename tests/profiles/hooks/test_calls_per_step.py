"""How many functions of ours a watched step calls: a count is the same on every machine, a time is not."""

import gc
import sys
from types import FrameType
from typing import Any

import torch

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch

MOST = 10  # one loader, root, backward, zero_grad and update; 22 before they were written out where they run
SETTLED = 200
STEPS = 50
OURS = "/profiles/"


def test_a_watched_step_calls_few_functions_of_ours() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(SETTLED + 2 * STEPS, 4))
    loader: Any = torch.utils.data.DataLoader(data, batch_size=1)
    calls: list[str] = []

    def called(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and OURS in frame.f_code.co_filename:
            calls.append(frame.f_code.co_qualname)

    watch = Watch(Run({}, {}), Clock(lambda step: None))
    watch.install()
    try:
        for number, (batch,) in enumerate(loader):
            if number == SETTLED:
                gc.disable()  # a collection is counted by two calls of ours, and falls in some step or none
                sys.setprofile(called)
            elif number == SETTLED + STEPS:
                sys.setprofile(None)
                break
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    finally:
        sys.setprofile(None)
        gc.enable()
        watch.remove()
    assert 4 * STEPS < len(calls) <= MOST * STEPS, sorted(set(calls))
