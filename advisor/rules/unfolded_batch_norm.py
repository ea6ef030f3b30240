"""A batch norm runs behind a convolution that it could be a part of."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import share_of_step
from advisor.profiles.facts.profile import Profile

NORMS = (
    "aten::batch_norm", "aten::_batch_norm_impl_index", "aten::native_batch_norm", "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm", "aten::_batch_norm_no_update", "aten::_native_batch_norm_legit_no_training",
)  # fmt: skip
THRESHOLD = 0.03  # of a request, from where folding is worth changing a model (set by experiment)
LEFT = 0.5  # relative error: an activation behind the norm then finds its input less near


class UnfoldedBatchNorm(Rule):
    """In evaluation a batch norm multiplies and adds constants, which the convolution before it could do.

    As a layer of its own it reads and writes the whole output of the convolution once more. Fold both into
    one: `torch.nn.utils.fusion.fuse_conv_bn_eval(conv, norm)`, or all of a model with
    `torch.fx.experimental.optimization.fuse`. Roundings move. Compiled models with frozen weights are folded
    by the compiler.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    recorded = True
    knobs = ("fold_conv_bn",)
    explains = ("launch_bound", "unfused_pointwise")
    on_traces = "requests: a trace does not tell them from training"
    threshold = f"batch norms take {percent(THRESHOLD)} of a request in evaluation mode (set by experiment)"

    def check(self, profile: Profile) -> Finding:
        if not profile.serves:
            return self.not_applicable("requests", "the run was not counted in requests")
        if profile.window is None:
            return self.not_applicable("operators", "need requests recorded by torch.profiler")
        if not any(root.has_batch_norm and root.convolution_dimensions for root in profile.roots):
            return self.passed("0 batch norms stand beside convolutions")
        if profile.run is not None and profile.run.requests_in_training_mode:
            return self.not_applicable("batch norms that are constant", "the model is in training mode")
        spent_ms = profile.window.ms_of(*NORMS)
        calls = sum(op.calls for op in profile.window.ops if op.name == "aten::batch_norm")
        share = share_of_step(profile, spent_ms)
        title = f"{percent(share)} of each request goes to {calls:.0f} batch norms beside convolutions"
        if share < THRESHOLD:
            return self.passed(title)
        return self.opportunity(
            title,
            self.timeline(share, LEFT),
            advice="Fold them into the convolutions after loading: "
            "`model = torch.fx.experimental.optimization.fuse(model.eval())`; roundings move.",
            evidence={"batch_norm_ms": round(spent_ms, 4), "batch_norms": round(calls, 1)},
        )
