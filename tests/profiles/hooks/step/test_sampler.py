"""Hot lines of the program, found by sampling its thread."""

import random
import sys
import threading
import time
from _thread import get_ident

import torch
from taps import watching

from advisor.profiles.events import Run
from advisor.profiles.facts.observed import HotSpot
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.hot_lines import LEAST, SHOWN, Sampler
from advisor.profiles.hooks.watch import Watch


def a_clock() -> Clock:
    return Clock(lambda step: None)


def spin(seconds: float) -> int:
    total, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for number in range(100):
            total += number
    return total


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def test_lines_are_found_in_their_phases() -> None:
    clock = a_clock()
    sampler = Sampler(clock, interval_s=0.001)
    sampler.start()
    for _ in range(5):
        clock.push("input_wait")
        sleep(0.02)
        clock.pop()
        spin(0.02)
    sampler.stop()
    hottest: dict[str, HotSpot] = {}
    for spot in sampler.hotspots():
        hottest.setdefault(spot.phase, spot)
    assert sampler.samples > 10 and hottest.keys() == {"input_wait", "other"}
    assert hottest["input_wait"].location.function == "sleep" and hottest["input_wait"].share > 0.8
    assert hottest["other"].location.function == "spin" and hottest["other"].location.file == __file__


def test_a_hook_is_told_from_the_line_that_calls_backward() -> None:
    with watching() as taps:
        weight = torch.ones(8, requires_grad=True)
        weight.register_hook(lambda gradient: sleep(0.02))
        taps.clock.ask(on=True)
        sampler = Sampler(taps.clock, interval_s=0.001)
        sampler.start()
        for _ in range(5):
            weight.sum().backward()
        sampler.stop()
        inner = [spot for spot in sampler.hotspots() if spot.phase == "backward" and spot.inner]
        clock_phases = {spot.phase for spot in sampler.hotspots()}
    assert "backward" in clock_phases and [spot.location.function for spot in inner] == ["sleep"]


def test_a_line_that_calls_a_library_is_the_one_that_is_hot() -> None:
    left, right = torch.ones(256, 256), torch.ones(256, 256)
    sampler = Sampler(a_clock(), interval_s=0.001)
    sampler.start()
    for _ in range(200):
        torch.nn.functional.linear(left, right)
    line = sys._getframe().f_lineno - 1
    sampler.stop()
    assert sampler.hotspots()[0].location.line in (line - 1, line)


def test_few_lines_of_a_phase_are_told_with_shares_of_all_its_samples() -> None:
    sampler = Sampler(a_clock(), interval_s=0.0005)
    sampler.start()
    sleep(0.01)
    spin(0.01)
    time.sleep(0.01)
    time.sleep(0.01)
    time.sleep(0.01)
    time.sleep(0.01)
    sampler.stop()
    shares = [spot.share for spot in sampler.hotspots()]
    assert len(shares) == SHOWN and shares == sorted(shares, reverse=True) and sum(shares) < 1


def test_a_line_that_was_met_once_or_twice_is_not_told() -> None:
    sampler = Sampler(a_clock(), interval_s=1.0)
    sampler.start()
    for taken in range(1, LEAST + 1):
        assert sampler.hotspots() == () and sampler.samples == taken - 1
        sampler._sampled = get_ident()
        sampler._take()
    sampler.stop()
    assert [spot.share for spot in sampler.hotspots()] == [1.0]


def test_a_stopped_sampler_leaves_nothing_behind() -> None:
    interval, threads, state = sys.getswitchinterval(), threading.active_count(), random.getstate()
    sampler = Sampler(a_clock())
    sampler.start()
    sampler.start()
    assert threading.active_count() == threads + 1
    sampler.stop()
    sampler.stop()
    taken = sampler.samples
    time.sleep(0.02)
    assert sampler.samples == taken
    assert (sys.getswitchinterval(), threading.active_count(), random.getstate()) == (
        interval,
        threads,
        state,
    )


def test_only_the_thread_that_started_it_is_sampled() -> None:
    other = threading.Thread(target=spin, args=(0.1,))
    sampler = Sampler(a_clock(), interval_s=0.001)
    sampler.start()
    other.start()
    sleep(0.08)
    sampler.stop()
    other.join()
    assert {spot.location.function for spot in sampler.hotspots()}.isdisjoint({"spin"})


def test_it_can_go_on_later() -> None:
    sampler = Sampler(a_clock(), interval_s=0.001)
    counts = []
    for _ in range(2):
        sampler.start()
        sleep(0.03)
        sampler.stop()
        counts.append(sampler.samples)
    assert 0 < counts[0] < counts[1]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for _ in range(200):
            inputs = self.layer(inputs)
        return inputs


def test_a_forward_is_hot_in_the_program_and_not_in_what_watches_it() -> None:
    watch = Watch(Run({}, {}), clock := a_clock())
    watch.install()
    model = Net()
    sampler = Sampler(clock, interval_s=0.001)
    sampler.start()
    for _ in range(10):
        model(torch.ones(64, 64)).mean().backward()
    sampler.stop()
    watch.remove()
    assert {spot.location.file for spot in sampler.hotspots()} == {__file__}
    assert any((spot.phase, spot.location.function) == ("forward", "forward") for spot in sampler.hotspots())


def test_a_library_called_by_a_root_of_a_library_is_hot_where_the_program_calls_it() -> None:
    watch = Watch(Run({}, {}), clock := a_clock())
    watch.install()
    model = torch.nn.Linear(256, 256)
    sampler = Sampler(clock, interval_s=0.0005)
    sampler.start()
    for _ in range(30):
        model(torch.ones(512, 256)).mean().backward()
    sampler.stop()
    watch.remove()
    assert {spot.location.file for spot in sampler.hotspots()} == {__file__}
