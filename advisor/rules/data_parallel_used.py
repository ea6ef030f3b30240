"""One process drives several devices through nn.DataParallel."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile


class DataParallelUsed(Rule):
    """`nn.DataParallel` copies the model to every device at each step and drives all from one process.

    Python runs in one thread at a time, so the devices wait for each other; the first one also gathers all
    outputs and gradients, which limits the batch. `DistributedDataParallel` starts one process per device
    and sends gradients while backward still runs: start with `torchrun --nproc-per-node=gpu train.py` and
    wrap the model in each process. Each rank then reads its own share of the data.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "model: a trace does not hold it"
    threshold = (
        "nn.DataParallel with more than one device (PyTorch TensorBoard plug-in, PyTorch tuning guide)"
    )
    knobs = ("ddp",)

    def check(self, profile: Profile) -> Finding:
        devices = len(profile.machine.gpus)
        if not profile.roots:
            return self.not_applicable("model", "none was seen")
        if devices < 2:
            return self.not_applicable("several devices", f"this machine has {devices}")
        used = [root for root in profile.roots if root.parallel == "DataParallel"]
        if not used:
            return self.passed(f"0 of {len(profile.roots)} models use nn.DataParallel")
        return self.diagnostic(
            f"{devices} devices are driven by one process (nn.DataParallel)",
            advice="Use `DistributedDataParallel(model, device_ids=[rank])`, one process per device, started "
            "by `torchrun --nproc-per-node=gpu`; with `DistributedSampler` each rank reads its own share.",
            location=used[0].location,
            evidence={"devices": devices, "model": used[0].name},
        )
