"""How a tensor that a worker has made reaches the program."""

from typing import Any

from advisor.profiles.derived.trends import kept_batches
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.worker_knob import WorkerSetting

NOTHING_KEPT = "the program keeps no tensors of its batches"
HAS_WORKERS = "the program has workers already: the rule limit_ahead tells what their tensors hold open"


class SharingStrategy(WorkerSetting[str]):
    """Passes tensors of workers as open files (`file_descriptor`, torch's way) or by name (`file_system`).

    A tensor that came from a worker lies in shared memory and, as an open file, holds a descriptor as long as
    it lives. A program that keeps one of every batch, in a list of labels for a metric at the end of the
    epoch, meets the usual limit of 1,024 open files after about a thousand steps, and dies although it had
    run well. By name nothing is held open. What is kept stays in shared memory either way: a copy
    (`labels.append(y.clone())`) is better, and needs no setting.

    It gives no speed. It is set together with workers where the program was seen to keep tensors of its
    batches, so that what is measured also lasts. Workers that are spawned read it from the program's file.
    """

    semantics = Semantics.EXACT
    follows = "num_workers"
    usual_gain = 0.0
    layer = 1

    def values(self) -> list[str]:
        return ["file_descriptor", "file_system"]

    def present(self, profile: Profile) -> str:
        if profile.loader is None:
            raise Refused("the program uses no DataLoader")
        return "file_descriptor"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        if profile.loader is not None and profile.loader.num_workers:
            raise Refused(HAS_WORKERS)
        if kept_batches(profile) is None:
            raise Refused(NOTHING_KEPT)
        return [present, "file_system"]

    def _set(self, arguments: dict[str, Any], value: str) -> None:
        import torch.multiprocessing

        if value not in torch.multiprocessing.get_all_sharing_strategies():
            raise Refused(f"torch cannot share tensors by {value} here")
        torch.multiprocessing.set_sharing_strategy(value)

    def change(self, value: str) -> Change:
        return Change(f'torch.multiprocessing.set_sharing_strategy("{value}")')
