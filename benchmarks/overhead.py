"""What watching and recording cost, beside the same steps left alone: `python benchmarks/overhead.py`.

Programs with one tiny, few large, several, and very many small operators a step, and epochs of 256 steps.
Blocks alternate A B B A in one process: without taps and with them; without and with the profiler. The
overhead that a report states for the same program is put beside the measured one. The cost of watching is
the same in every step, so the tiny program tells it best; in the others the noise of the machine is larger.
Wants a quiet machine; about six minutes. ``--short`` tells whether all of it runs: its figures mean nothing,
and are stored nowhere but where ``--out`` says.
"""

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from conditions import conditions

from advisor.profiles.events import Run
from advisor.profiles.facts.machine import read_machine
from advisor.profiles.hooks.recorder import Recorder, plan
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.reading import read_trace
from advisor.stages.diagnosing.diagnosis import AGREEING, usual_s

RESULTS = Path(__file__).parent / "results" / "overhead.json"
QUADS, RECORDINGS = 24, 36
SHORT = 2, 4  # of both
SETTLED = 70  # steps
BLOCK_S = 0.12
EPOCH = 256  # steps


class Block(torch.nn.Module):
    """Attention and a small perceptron, as in a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Add both to the stream."""
        normed = self.norm(tokens)
        tokens = tokens + self.attention(normed, normed, normed, need_weights=False)[0]
        return tokens + self.mlp(self.norm(tokens))


def few() -> tuple[torch.nn.Module, torch.Tensor]:
    """Convolutions, each large."""
    layers = [
        torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, stride=2), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.LazyLinear(10),
    ]  # fmt: skip
    images = torch.randn(16, 3, 32, 32)
    model = torch.nn.Sequential(*layers)
    model(images)
    return model, images


def tiny() -> tuple[torch.nn.Module, torch.Tensor]:
    """One small layer: a step so short that watching it shows beside the noise of the machine."""
    return torch.nn.Linear(16, 4), torch.randn(16, 16)


def short_epochs() -> tuple[torch.nn.Module, torch.Tensor]:
    """As tiny, with an epoch every 16 steps: what one costs is 16 times what this step costs more."""
    return tiny()


def several() -> tuple[torch.nn.Module, torch.Tensor]:
    """Four transformer blocks."""
    return torch.nn.Sequential(*(Block(128) for _ in range(4))), torch.randn(4, 64, 128)


def many() -> tuple[torch.nn.Module, torch.Tensor]:
    """Sixty narrow layers: operators so small that only dispatch counts."""
    layers = [part for _ in range(60) for part in (torch.nn.Linear(16, 16), torch.nn.Tanh())]
    return torch.nn.Sequential(*layers), torch.randn(16, 16)


class Program:
    """An ordinary training loop over a loader."""

    def __init__(self, make: Callable[[], tuple[torch.nn.Module, torch.Tensor]]) -> None:
        torch.manual_seed(0)
        self.model, inputs = make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        epoch = 16 if make is short_epochs else EPOCH
        data = torch.utils.data.TensorDataset(inputs.repeat(epoch, *([1] * (inputs.ndim - 1))))
        self.loader: Any = torch.utils.data.DataLoader(data, batch_size=len(inputs))

    def run(self, steps: int, after: Callable[[], None] | None = None) -> None:
        """Make so many steps, and call this after each of them."""
        done = 0
        while True:
            for (batch,) in self.loader:
                self.model(batch).square().mean().backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                if after is not None:
                    after()
                done += 1
                if done == steps:
                    return


def timed(program: Program, steps: int) -> float:
    """Seconds of a step."""
    began = time.perf_counter()
    program.run(steps)
    return (time.perf_counter() - began) / steps


def watched(program: Program, steps: int) -> tuple[float, float]:
    """Seconds of a step under the taps, and the share that they state themselves."""
    clock = Clock(lambda step: None)
    watch = Watch(Run({}, {}), clock)
    watch.install()
    try:
        program.run(SETTLED)  # roots are found and batches looked at in the first steps
        seconds = timed(program, steps)
        return seconds, watch.profile(read_machine(), "script").watching or 0.0
    finally:
        watch.remove()


def each_step(program: Program, steps: int, between: Callable[[], None] | None = None) -> list[float]:
    """Seconds of each step, with what is called between it and the next."""
    times = [time.perf_counter()]

    def closed() -> None:
        if between is not None and len(times) < steps:
            between()
        times.append(time.perf_counter())

    program.run(steps, closed)
    return [end - begin for begin, end in pairwise(times)]


def recorded(program: Program, steps: int) -> tuple[float, float | None]:
    """What the profiler's window adds to a step, and what a report would state, as shares of the step.

    Nothing is stated where the steps before and after differ: another window is recorded then.
    """
    first = each_step(program, steps)
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "trace.json", shapes=False)  # as the window that is timed
        recorder.start()
        within = each_step(program, steps, recorder.step)
        recorder.stop()
        trace = read_trace(Path(folder) / "trace.json")
    last = each_step(program, steps)
    added = statistics.fmean(within) / statistics.fmean(first + last) - 1
    before, after = usual_s(first), usual_s(last)
    if abs(math.log(after / before)) >= AGREEING:
        return added, None
    return added, window_of(trace, clean_step_ms=500 * (before + after)).overhead


def measure(
    make: Callable[[], tuple[torch.nn.Module, torch.Tensor]], quads: int, recordings: int
) -> dict[str, Any]:
    """Overheads of one program: medians over quads, with their quartiles.

    What a report would state is ``None`` where the machine was too busy for two recordings to state anything.
    """
    program = Program(make)
    step_s = min(timed(program, 20) for _ in range(5))
    steps = max(5, math.ceil(BLOCK_S / step_s))
    ratios, stated = [], []
    for _ in range(quads):
        first = timed(program, steps)
        (b1, s1), (b2, s2) = watched(program, steps), watched(program, steps)
        last = timed(program, steps)
        ratios.append((b1 + b2) / (first + last) - 1)
        stated += [s1, s2]
    with tempfile.TemporaryDirectory() as folder:
        pilot = Recorder(Path(folder) / "pilot.json", shapes=False)
        pilot.start()
        program.run(1)
        pilot.stop()
        events = len(read_trace(Path(folder) / "pilot.json"))
    window = plan(events)[0].steps
    shares, said = [], []
    for _ in range(recordings):
        added, states = recorded(program, window)
        shares.append(added)
        if states is not None:
            said.append(states)
    added_us = [1e6 * step_s * ratio for ratio in ratios]
    return {
        "step_ms": 1000 * step_s,
        "events_per_step": events,
        "watching": quartiles(ratios),
        "watching_us": quartiles(added_us),
        "watching_stated_us": 1e6 * step_s * statistics.median(stated),
        "watching_stated": statistics.median(stated),
        "recording": quartiles(shares),
        "recording_stated": quartiles(said) if len(said) > 1 else None,
    }


def quartiles(values: list[float]) -> dict[str, float]:
    """Median with the quartiles around it."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": middle, "low": low, "high": high}


def main() -> None:
    """Measure all and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--short", action="store_true", help="see whether it runs")
    asked = parser.parse_args()
    quads, recordings = SHORT if asked.short else (QUADS, RECORDINGS)
    out = asked.out or (None if asked.short else RESULTS)
    torch.set_num_threads(1)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or torch tells of every window
    found = {
        make.__name__: measure(make, quads, recordings) for make in (tiny, short_epochs, few, several, many)
    }
    for name, row in found.items():
        stated = "nothing" if row["recording_stated"] is None else f"{row['recording_stated']['median']:.1%}"
        print(
            f"{name:12} step {row['step_ms']:.2f} ms, {row['events_per_step']} events: "
            f"watching {row['watching']['median']:+.2%}, {row['watching_us']['median']:.0f} us "
            f"(stated {row['watching_stated']:.2%}, {row['watching_stated_us']:.0f} us), "
            f"recording {row['recording']['median']:+.1%} (stated {stated})"
        )
    if out is not None:
        out.write_text(json.dumps({"conditions": conditions(), "programs": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
