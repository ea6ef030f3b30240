"""GPU tensors are exchanged through a backend made for the CPU."""

from statistics import fmean

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

LEAST_CAPABILITY = (3, 5)  # of a device that NCCL runs on (PyTorch TensorBoard plug-in)


class SlowBackend(Rule):
    """Gloo copies each GPU tensor to the host, sends it from there, and copies the result back.

    NCCL sends directly between devices, over NVLink where there is one, and while kernels run. Ask for it:
    `torch.distributed.init_process_group("nccl")`, after `torch.cuda.set_device(local_rank)`. The sums
    are added in another order, so results differ by rounding.

    The ceiling is modelled: all communication that nothing overlaps, as if NCCL took no time.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "exchanges between several GPUs: the trace holds none"
    threshold = "GPU tensors, no NCCL, device of capability 3.5 or more (PyTorch TensorBoard plug-in)"
    explains = ("exposed_communication",)

    def check(self, profile: Profile) -> Finding:
        ranks, gpus = profile.ranks, profile.machine.gpus
        if not ranks:
            return self.not_applicable("ranks", "the run is a single process")
        if not gpus or gpus[0].capability < LEAST_CAPABILITY:
            return self.not_applicable("device for NCCL", f"this machine has {len(gpus)} GPUs")
        known = [rank for rank in ranks if rank.backend is not None and rank.device_tensors is not None]
        if not known:
            return self.not_applicable("backend of the ranks", "no exchange was seen")
        slow = [rank for rank in known if rank.device_tensors and "nccl" not in (rank.backend or "")]
        if not slow:
            return self.passed(f"0 of {len(known)} ranks send GPU tensors without NCCL")
        title = f"{len(slow)} of {len(known)} ranks send GPU tensors through {slow[0].backend}"
        advice = 'Ask for NCCL: `init_process_group("nccl")`; sums are then added in another order.'
        evidence = {"backend": slow[0].backend, "ranks": len(known)}
        if not any(rank.communication_ms for rank in slow):
            return self.diagnostic(title, advice=advice, evidence=evidence)
        share = fmean(rank.share("exposed") for rank in slow)
        return self.opportunity(
            f"{title}, {percent(share)} of each step",
            self.modelled(share),
            advice=advice,
            evidence={**evidence, "exposed_ms": round(fmean(rank.exposed_ms for rank in slow), 4)},
        )
