"""All taps of one process, installed together and removed together."""

from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.base.unit import Unit
from advisor.profiles.events import Run
from advisor.profiles.facts.machine import Machine, with_torch
from advisor.profiles.facts.observed import Denormals, HotSpot, SyncPoint
from advisor.profiles.facts.profile import LoaderFacts, Profile, RootFacts, RunFacts
from advisor.profiles.hooks.loading.cached_batch import CachedBatch
from advisor.profiles.hooks.loading.drawing import Drawing
from advisor.profiles.hooks.loading.loader_record import LoaderRecord
from advisor.profiles.hooks.loading.loaders import Loaders
from advisor.profiles.hooks.loading.recorded_batches import RecordedBatches
from advisor.profiles.hooks.model.compilation import Compiling
from advisor.profiles.hooks.model.discovery import dynamo_at_work
from advisor.profiles.hooks.model.registered_hooks import RegisteredHooks
from advisor.profiles.hooks.model.requests import Requests, Trains
from advisor.profiles.hooks.model.roots import Roots
from advisor.profiles.hooks.omission import Anomalies, Backwards, Graphs, Omissions, Part, Reductions, Updates
from advisor.profiles.hooks.optimizer.denormals import denormals
from advisor.profiles.hooks.optimizer.losses import Losses
from advisor.profiles.hooks.optimizer.numerics import nonfinite_facts
from advisor.profiles.hooks.optimizer.optimizers import Optimizers
from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.cost import watching_s
from advisor.profiles.hooks.step.hot_lines import Sampler
from advisor.profiles.hooks.step.lineage import Lineage
from advisor.profiles.hooks.step.saves import Saves
from advisor.profiles.hooks.step.syncs import Syncs
from advisor.profiles.hooks.step.transfers import Transfers
from advisor.profiles.hooks.surroundings.debugging import Debugging
from advisor.profiles.hooks.surroundings.garbage import Garbage
from advisor.profiles.hooks.surroundings.growing import GrowthWatch
from advisor.profiles.hooks.surroundings.logs import Logs
from advisor.profiles.hooks.surroundings.memory import MemoryWatch
from advisor.profiles.hooks.surroundings.precisions import conv_precision, matmul_precision
from advisor.profiles.hooks.surroundings.seeds import Seeds

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer


class Watch:
    """Watches the training of this process and lets the subscribers of a run act on it.

    Torch must have been imported. Processes forked later are not watched.

    Args:
        run: Receives the events.
        clock: Receives ticks, phases and flags.
        seed: Seeds Python, numpy and torch at ``install``.
        seed_offset: Added to every seed that the program sets.
        loss_limit: How many losses to keep.
        unit: Whether its steps or its requests are watched.
        between: Of requests: what happens between them counts, too.
        compiling: Watches dynamo, if somebody has armed it.

    Attributes:
        num_norms: Set before ``install`` to keep the gradient norms of so many first updates.
        batches: Stand in for those of the training loader.
        lineage: Follows the values that lines of the program compute.
        memory: Told where a watched window begins and ends, and of its steps.
        growth: Told of every step.
    """

    def __init__(
        self,
        run: Run,
        clock: Clock,
        *,
        seed: int | None = None,
        seed_offset: int = 0,
        loss_limit: int = 64,
        compiling: Compiling | None = None,
        unit: Unit = Unit.STEP,
        between: bool = False,
    ) -> None:
        self.num_norms = 0
        self._run = run
        self._clock = clock
        self._scope = Scope()
        self._seeds = Seeds(self._scope, seed, seed_offset)
        self._requests: Requests | None = None
        if unit is Unit.REQUEST:
            self._requests = Requests(
                run, clock, self._scope, between=between, settle=lambda: self._roots.settle()
            )
        self._roots = Roots(run, clock, self._scope, self._requests)
        self._loaders = Loaders(run, clock, self._scope)
        self._losses = Losses(
            run, clock, self._scope, began=self._roots.settle, done=self._loaders.credit, limit=loss_limit
        )
        self._optimizers = Optimizers(run, clock, self._scope, self._before_first_update, self._after_update)
        self._saves = Saves(run, clock, self._scope, self._roots.evaluations)
        self._logs = Logs(clock, self._scope)
        self._garbage = Garbage(clock, self._scope)
        self._debugging = Debugging(clock, self._scope)
        self._transfers = Transfers(run, self._scope)
        self._hooks = RegisteredHooks(self._scope)
        self._taps = (
            self._seeds, self._roots, self._loaders, self._losses, self._optimizers, self._saves,
            self._logs, self._garbage, self._debugging, self._transfers, self._hooks,
            *((self._requests,) if self._requests is not None else ()),
        )  # fmt: skip
        self._compiling = compiling
        self._syncs = Syncs(clock, self._scope)
        self._sampler = Sampler(clock, unless=self._losses.gradients.at_work)
        self._drawing = Drawing(clock, self._scope)
        self.lineage = Lineage(clock)
        self._denormals: Denormals | None = None
        self._synced: tuple[SyncPoint, ...] | None = None
        self._hotspots: tuple[HotSpot, ...] = ()
        self.batches = RecordedBatches(self._loaders)
        self.memory = MemoryWatch(clock, self._parameters, lambda: self._optimizers.known)
        self.growth = GrowthWatch(self._hooks, self._roots.modules, self._loaders.noted)
        self._omissions = self._offered()
        self.default_threads: int | None = None

    def install(self) -> None:
        """Seed if asked, emit ``process``, then watch."""
        import torch

        self.default_threads = torch.get_num_threads()
        self._optimizers.norm_limit = self.num_norms
        self._losses.sampled = self._debugging.look
        self._losses.scaler.attach(self._optimizers)
        self._scope.enter()
        self._seeds.install()
        self._run.process()
        for tap in self._taps[1:]:
            tap.install()

    def remove(self) -> None:
        """Put everything back as it was before ``install``."""
        self._scope.active = False
        self._omissions.omit(None)
        for tap in reversed(self._taps):
            tap.remove()

    def sample(self, on: bool) -> None:
        """Begin or end meeting hot lines alone, at a step border; ``inspect`` may follow and goes on."""
        self._clock.ask(on)
        if on:
            self._sampler.start()
        else:
            self._sampler.stop()

    def inspect(self, on: bool, *, steps: int = 0) -> None:
        """Begin or end looking closely, at a cost that would falsify times.

        Args:
            on: Whether it begins, at a step border.
            steps: How many steps were looked at, when it ends.
        """
        self._clock.ask(on)
        if on:
            self._syncs.install()
            self._drawing.install()
            self._sampler.start()
        else:
            self._sampler.stop()
            self._syncs.remove()
            self._synced = self._syncs.facts(max(1, steps))
            self._hotspots = self._sampler.hotspots()
            self._drawing.remove(max(1, steps), self._hotspots)
            self._denormals = denormals(self._roots.modules(), self._optimizers.known)
        self._roots.inspect(on)
        self._losses.inspect(on)
        self._optimizers.inspect(on)
        self.memory.inspect(on)
        if self._requests is not None:
            self._requests.served.inspect(on)

    def probe(self) -> None:
        """Cost out the training loader; at a step border of a process that only times count of."""
        self._clock.ask(True)
        self._sampler.start()
        try:
            self._loaders.probe()
        finally:
            self._sampler.stop()
            self._clock.ask(False)

    def graph_shares(self) -> list[float]:
        """Shares of an evaluation's forward that recording its graph takes; empty where none records one."""
        graphed = self._roots.graphed
        if graphed is None:
            return []
        watched, self._scope.active = self._scope.active, False
        try:
            return graphed.shares()
        finally:
            self._scope.active = watched

    def omit(self, part: str | None) -> None:
        """Leave one part out of every step from now on; ``None`` brings everything back.

        Raises:
            ValueError: It cannot be left out; the message is the reason.
        """
        self._omissions.omit(part)

    @property
    def requests(self) -> Requests:
        """Those of a run that is counted in them."""
        assert self._requests is not None  # asked of such a run alone
        return self._requests

    def follow(self) -> None:
        """Take note of who subscribes after a configuration: some taps are installed only when needed."""
        self._transfers.follow()

    def adopt(self) -> None:
        """Take up what runs already: loaders whose iterators were made before ``install``."""
        self._loaders.adopt()

    def models(self) -> "list[Module]":
        """The modules that the program trains or calls, as far as they are known and alive."""
        return self._roots.modules()

    def losses(self) -> list[float]:
        """Losses per update of the optimizer seen first, or per backward where there is none.

        Reads the device. What is not finite stays so.
        """
        return self._losses.values()

    def grad_norms(self) -> list[float]:
        """Total gradient norm before each update of the first optimizer, if recording was asked for."""
        return [float(norm) for norm in self._optimizers.norms]

    def optimizers(self) -> "list[Optimizer]":
        """Those that have updated, in the order of their first updates."""
        return self._optimizers.known

    def begin_record(self, updates: int) -> None:
        """Record losses and gradient norms of the next ``updates`` updates apart; at a step border."""
        optimizers = self._optimizers
        self._earlier = self._losses.begin_record(updates), optimizers.norms, optimizers.norm_limit
        optimizers.record_norms([], updates)

    def end_record(self) -> tuple[list[float], list[float]]:
        """The losses and gradient norms since ``begin_record``; earlier records go on."""
        found = self.losses(), self.grad_norms()
        losses, norms, limit = self._earlier
        self._losses.end_record(losses)
        self._optimizers.record_norms(norms, limit)
        return found

    def loader_start_s(self) -> float:
        """Seconds that the latest switch took to start iterators of loaders, up to their first batches."""
        return self._loaders.switching.start_ns / 1e9

    def loaders(self) -> list[LoaderRecord]:
        """Every DataLoader constructed so far, with what it was asked for and what it got."""
        return list(self._loaders.records)

    def loader_facts(self) -> LoaderFacts | None:
        """The loader that feeds the training."""
        return self._loaders.facts()

    def profile(self, machine: Machine, target_kind: str) -> Profile:
        """Everything seen so far; phases are left to whoever collects the steps.

        Args:
            machine: Completed with what torch knows, if that is still missing.
            target_kind: ``script`` or ``workload``.
        """
        if machine.torch_default_threads is None and self.default_threads is not None:
            machine = with_torch(machine, self.default_threads)
        roots = self._roots.facts(self._optimizers.without_gradient)
        loader = self._loaders.facts()
        return Profile(
            machine=machine,
            target_kind=target_kind,
            device=_device(roots),
            loader=None if loader is None else replace(loader, **self._drawing.facts()),
            roots=roots,
            optimizers=tuple(self._optimizers.facts),
            run=self._run_facts(roots),
            memory=self.memory.facts(),
            compile=None if self._compiling is None else self._compiling.facts(),
            syncs=self._synced,
            hotspots=self._hotspots,
            line_calls=self.lineage.facts(),
            gradients=self._losses.gradients.facts(self._roots.modules()),
            watching=self._watching(),
            growth=self.growth.facts(),
            denormals=self._denormals,
            served=None if self._requests is None else self._requests.served.facts(),
        )

    def _parameters(self) -> "list[Tensor]":
        return [parameter for module in self._roots.modules() for parameter in module.parameters()]

    def _offered(self) -> Omissions:
        reductions = Reductions(self._roots.modules)
        parts: dict[str, Part] = {
            "loader": CachedBatch(self._loaders, self._place),
            "double": CachedBatch(self._loaders, self._place, 2.0),
            "half": CachedBatch(self._loaders, self._place, 0.5),
            "optimizer": Updates(self._optimizers),
            "backward": Backwards(self._losses, self._optimizers, reductions),
            "communication": reductions,
            "debug": Anomalies(lambda: self._debugging.anomaly_seen),
            "graph": Graphs(),
        }
        omissions = Omissions()
        for name, part in parts.items():
            omissions.offer(name, part)
        return omissions

    def _place(self) -> str:
        """The device of the first parameter."""
        return next((str(parameter.device) for parameter in self._parameters()), "cpu")

    def _watching(self) -> float | None:
        """Share of a step that the taps add, from what they cost here and how often they are met."""
        steps, spent, latest = self._clock.steps, self._clock.now_ns(), self._clock.latest
        first = self._clock.first_tick_ns
        if steps < 2 or first is None or spent <= first or latest is None:
            return None
        # A step with an evaluation or a save has more phases than others: there each kind counts once.
        phases = len(latest.phases_ns) if latest.flags else len(latest.spent) // 2
        return watching_s(phases) / ((spent - first) / 1e9 / steps)

    def _before_first_update(self, optimizer: "Optimizer") -> None:
        if self._requests is not None:
            raise Trains
        self._losses.done = None  # from now on a step ends with an update
        self._roots.own(optimizer)

    def _after_update(self, optimizer: "Optimizer") -> bool:
        roots, losses = self._roots, self._losses
        if roots.looking:  # for losses that autograd.grad differentiates; else backward came first
            roots.settle()
        if losses.recording:
            losses.close(optimizer)
        return not (roots.looking or losses.recording)

    def _run_facts(self, roots: tuple[RootFacts, ...]) -> RunFacts:
        import torch

        steps = self._optimizers.updates if self._optimizers.seen else self._losses.backwards
        if self._requests is not None:
            steps = self._clock.steps
        loader = self._loaders.training()
        samples, source = self._samples(loader, steps)
        return RunFacts(
            clock=self._clock.kind or "optimizer",
            period=period_of(self._optimizers.sequence),
            backwards_per_step=self._losses.backwards / steps if steps else 1.0,
            samples_per_step=samples,
            sample_source=source,
            own_autocast=self._roots.own_autocast or self._losses.own_autocast,
            own_compile=any(root.already_compiled for root in roots)
            or ("call" not in self._run.events and dynamo_at_work()),
            own_backward_transforms=self._losses.own_transforms,
            deterministic=torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic,
            matmul_precision=matmul_precision(),
            num_threads=torch.get_num_threads(),
            conv_fp32_precision=conv_precision(),
            sum_reduced_loss=self._losses.sum_reduced,
            steps_seen=self._clock.steps,
            epoch_s=None if loader is None else loader.epoch_s,
            wall_s=self._wall_s(),
            log_calls_per_step=self._logs.calls_per_step,
            log_location=self._logs.location,
            **self._roots.evaluations.facts(),
            **self._saves.facts(),
            **self._garbage.facts(),
            **self._debugging.facts(),
            **self._losses.scaler.facts(self._roots.autocast_types),
            **({} if self._requests is None else self._requests.facts()),
            **nonfinite_facts(self._losses, self._optimizers, self._roots),
        )

    def _wall_s(self) -> float | None:
        """Seconds that the program itself ran since its first step."""
        first = self._clock.first_tick_ns
        return None if first is None else (self._clock.now_ns() - first) / 1e9

    def _samples(self, loader: LoaderRecord | None, steps: int) -> tuple[float | None, str | None]:
        if not steps:
            return None, None
        samples = self._loaders.samples_in_steps()
        if loader is not None and samples:
            return samples / steps, "loader"
        return (self._roots.samples / steps, "root") if self._roots.samples else (None, None)


def period_of(sequence: list[int]) -> int:
    """How often the first optimizer (0) updates in the shortest part of ``sequence`` that repeats throughout.

    Taking turns (0, 1, 0, 1) it is 1, with five updates of the first to one of the second 5.
    """
    length = next((n for n in range(1, len(sequence)) if sequence[n:] == sequence[:-n]), len(sequence))
    return max(1, sequence[:length].count(0))


def _device(roots: tuple[RootFacts, ...]) -> str:
    used = [device for root in roots for device in root.devices]
    return used[0].partition(":")[0] if used else "cpu"
