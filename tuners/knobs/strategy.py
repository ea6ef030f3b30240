"""How many processes train one model, and how they share the work."""

import os
from typing import Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.place import HERE
from advisor.tuners.strategies import STRATEGIES

ON_SCRIPTS = ("single", "ddp")


class Strategy(Knob[str]):
    """Whether one process trains the model or several do, and how these share data and updates.

    The number of processes is the knob ``ranks``. The batch of the whole run is kept: every worker takes its
    share. Threads are divided too, so that all strategies are compared at equal cores: two ranks with one
    thread each against one process with two threads. On two cores small convolution networks were then 1.0 to
    1.1 times as fast with two ranks, large linear layers 0.5 to 0.9 times.

    On a script `ddp` is an estimate of throughput: gradients are averaged behind its back, and each rank
    evaluates and saves. It is never recommended, but shown with what to write.
    """

    semantics = Semantics.ROUNDING
    usual_gain = 0.5
    opt_in = True
    layer = 90  # the batch is divided after other knobs have set it

    def values(self) -> list[str]:
        return list(STRATEGIES)

    def meaning(self, config: Config) -> Semantics:
        return STRATEGIES[str(config["strategy"])].meaning(config)

    def choices(self, profile: Profile) -> list[str]:
        if profile.machine.places < 2:
            raise Refused("one process fills this machine")
        left_out = self.left_out(profile)
        chosen = [name for name in STRATEGIES if name != "single" and name not in left_out]
        if not chosen:
            raise Refused("no strategy can train this program on several ranks")
        return ["single", *chosen]

    def left_out(self, profile: Profile) -> dict[str, str]:
        if profile.machine.places < 2:
            return {}
        reasons = {}
        for name, strategy in STRATEGIES.items():
            try:
                self.check(name, profile)
            except Refused as reason:
                reasons[name] = str(reason)
            else:
                if strategy.semantics is Semantics.TRAINING:
                    reasons[name] = f"it changes what is learnt; `--knob strategy={name}` measures it"
        return reasons

    def present(self, profile: Profile) -> str:
        return "ddp" if any(root.parallel for root in profile.roots) else "single"

    def check(self, value: str, profile: Profile) -> None:
        if profile.target_kind != "workload" and value not in ON_SCRIPTS:
            raise Refused("a script's loop is not changed for it: `advisor init` makes a workload file of it")
        STRATEGIES[value].check(profile, profile.machine.places)

    def process(self, value: str) -> None:
        """Take this process's cores and threads, and meet the others."""
        place = HERE.place
        if place.cpus:
            os.sched_setaffinity(0, place.cpus)
            import torch

            torch.set_num_threads(len(place.cpus))
        HERE.join()

    def loader(self, arguments: dict[str, Any], value: str) -> None:
        """Divide the batch among the workers, and deal the samples out without repeating any."""
        place = HERE.place
        if place.learning or place.serves or not STRATEGIES[value].splits_batch:
            return
        from torch.utils.data import IterableDataset
        from torch.utils.data.distributed import DistributedSampler

        if arguments.get("batch_sampler") is not None or arguments.get("batch_size") is None:
            raise Refused("the loader makes its batches by a batch_sampler of its own")
        if arguments.get("sampler") is not None:
            raise Refused("the loader has a sampler of its own")
        if isinstance(arguments["dataset"], IterableDataset):
            raise Refused("an iterable dataset gives every rank the same samples")
        batch = int(arguments["batch_size"])
        if batch % place.workers:
            raise Refused(f"a batch of {batch} cannot be divided among {place.workers} ranks")
        arguments["batch_size"] = batch // place.workers
        arguments["sampler"] = DistributedSampler(
            arguments["dataset"],
            num_replicas=place.workers,
            rank=place.rank,
            shuffle=bool(arguments.get("shuffle")),
            drop_last=bool(arguments.get("drop_last")),
        )
        arguments["shuffle"] = False

    def change(self, value: str) -> Change:
        return STRATEGIES[value].change()
