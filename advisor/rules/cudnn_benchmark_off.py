"""cuDNN takes its first guess of a convolution algorithm instead of the fastest."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

LEAST = 0.05  # of compute in convolutions: below it no algorithm is worth a try; set by experiment


class CudnnBenchmarkOff(Rule):
    """cuDNN has several algorithms for each convolution and picks one by a rule of thumb.

    With `torch.backends.cudnn.benchmark = True` it times them once for each input shape and keeps the
    fastest. That pays where shapes stay the same; with changing shapes it times again and again.
    Set the flag before the first step. Which algorithm wins can differ between two runs, so results no
    longer repeat bit by bit; runs that ask for determinism are left alone.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    on_traces = "flag cudnn.benchmark: a trace does not hold it"
    threshold = "convolutions of constant shape on a GPU with the flag off (DLProf, PyTorch tuning guide)"
    knobs = ("cudnn_benchmark",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        run, loader, window = profile.run, profile.loader, profile.window
        if not profile.device.startswith("cuda"):
            return self.not_applicable("cuDNN", "needs a GPU")
        if run is None or run.cudnn_benchmark is None:
            return self.not_applicable("flag cudnn.benchmark", "was not recorded")
        if run.cudnn_benchmark:
            return self.passed("cudnn.benchmark is on")
        if run.deterministic:
            return self.not_applicable("free choice of algorithms", "the run asks for determinism")
        if not profile.roots:
            return self.not_applicable("root modules", "no model was found")
        convolutions = sum(root.dense_convolutions for root in profile.roots)
        if not convolutions:
            return self.passed("0 dense convolutions")
        if loader is None or loader.shapes_vary is None:
            return self.not_applicable("batch shapes", "needs batches from a DataLoader")
        if loader.shapes_vary:
            return self.not_applicable("constant shapes", "the shapes of batches vary")
        if window is not None and window.compute_ms > 0:
            spent = sum(op.self_ms for op in window.ops if "conv" in op.name and "convert" not in op.name)
            if spent / window.compute_ms < LEAST:
                return self.passed(f"{percent(spent / window.compute_ms)} of compute is convolution")
        return self.diagnostic(
            f"{convolutions} convolutions of constant shape run with cudnn.benchmark off",
            advice="Set `torch.backends.cudnn.benchmark = True` before the first step; results then no "
            "longer repeat bit by bit.",
            evidence={"convolutions": convolutions},
        )
