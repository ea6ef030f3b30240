"""A process whose requests are watched, for tests of what is noted of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from advisor.base.unit import Unit
from advisor.profiles.events import Run
from advisor.profiles.facts.served import ServedFacts
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.watch import Watch


class Answering:
    """What is seen of requests in this process."""

    def __init__(self, watch: Watch, steps: list[Step]) -> None:
        self.watch = watch
        self.steps = steps

    @property
    def served(self) -> ServedFacts:
        return self.watch.requests.served.facts()

    @contextmanager
    def inspected(self) -> Iterator[None]:
        self.watch.requests.served.inspect(True)
        yield
        self.watch.requests.served.inspect(False)


@contextmanager
def answering(*, between: bool = False, run: Run | None = None) -> Iterator[Answering]:
    steps: list[Step] = []
    clock = Clock(steps.append, unit=Unit.REQUEST)
    watch = Watch(run or Run({}, {}), clock, unit=Unit.REQUEST, between=between)
    watch.install()
    try:
        yield Answering(watch, steps)
    finally:
        watch.remove()
