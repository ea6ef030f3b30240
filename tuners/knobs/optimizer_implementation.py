"""Which of torch's implementations an optimizer updates with."""

from typing import TYPE_CHECKING

from advisor.profiles.facts.profile import OptimizerFacts, Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics, offered

if TYPE_CHECKING:
    from torch.optim import Optimizer

FORMS: dict[str, dict[str, bool | None]] = {
    "default": {"foreach": None, "fused": None},  # None, not False: torch keeps its own choice
    "for-loop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": None},
    "fused": {"foreach": None, "fused": True},
}

SAVED = {"fused": 0.7, "foreach": 0.3}  # of the time of updates; set by experiment


class OptimizerImplementation(Knob[str]):
    """Updating all parameters in one go saves the time between small operations.

    `fused` computes a whole update in one kernel: fused Adam and AdamW gave 1.38 to 1.49 times on a
    small MLP and 1.16 on BERT (CPU), nothing on other models; fused SGD gave nothing. `foreach` groups
    parameters by operation; on a CPU it gains nothing (0.84 to 1.07), on a GPU torch mostly chooses it
    by itself. It needs about one more copy of the parameters (pytorch #97712).

    `fused` exists for SGD, Adam, AdamW and Adagrad, not for differentiable updates or sparse gradients.
    Compilation takes its gain away: 1.12 together, where it had 1.38 to 1.49 alone. Losses are equal or
    differ in the seventh digit.
    """

    semantics = Semantics.ROUNDING
    usual_gain = 0.3
    live = True
    acts_on = ("optimizer",)
    written = ("fused=true", "foreach=true")

    def values(self) -> list[str]:
        return list(FORMS)

    def present(self, profile: Profile) -> str:
        if not profile.optimizers:
            raise Refused("parameters are updated without torch.optim")
        forms = {_form(facts) for facts in profile.optimizers}
        if len(forms) > 1:
            raise Refused("the program's optimizers use different implementations")
        return forms.pop()

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        tried = ["default", "foreach", "fused"] if profile.device.startswith("cuda") else ["default", "fused"]
        refusals = {value: _refusal(value, profile) for value in tried if value != present}
        return offered(present, refusals)

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        reason = _refusal(value, profile)
        if reason:
            raise Refused(reason)

    def expected(self, profile: Profile, value: str) -> float | None:
        """A share of the time of updates, which the profile tells."""
        saved = SAVED.get(value)
        if saved is None or profile.phases is None:
            return None
        return 1 / (1 - saved * profile.phases.share("optimizer"))

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Set the form of all groups, before the first update or between two.

        Raises:
            Refused: The optimizer lacks this form, or its parameters do not allow it.
        """
        import torch

        name = type(optimizer).__name__
        for group in optimizer.param_groups:
            missing = [key for key, wanted in FORMS[value].items() if wanted and key not in group]
            if missing or "foreach" not in group:
                raise Refused(f"{name} has no {missing[0] if missing else 'foreach'} form")
            if value == "fused" and group.get("differentiable"):
                raise Refused(f"{name} is differentiable, which excludes a fused update")
            if (
                value == "foreach"
                and isinstance(group.get("lr"), torch.Tensor)
                and not group.get("capturable")
            ):
                raise Refused(f"{name} has its learning rate in a tensor, which excludes foreach")
            if value == "fused" and not all(torch.is_floating_point(p) for p in group["params"]):
                raise Refused(f"{name} updates complex parameters, which excludes a fused update")
        for settings in (*optimizer.param_groups, optimizer.defaults):
            settings.update({key: wanted for key, wanted in FORMS[value].items() if key in settings})
        _move_step_counts(optimizer, on_device=value == "fused")

    def change(self, value: str) -> Change:
        if value == "default":
            return Change("# leave foreach and fused out: torch chooses")
        arguments = {"for-loop": "foreach=False", "foreach": "foreach=True", "fused": "fused=True"}
        return Change(f"optimizer = Optimizer(..., {arguments[value]})")


def _form(facts: OptimizerFacts) -> str:
    if facts.fused:
        return "fused"
    if facts.foreach:
        return "foreach"
    return "for-loop" if facts.foreach is False else "default"


def _refusal(value: str, profile: Profile) -> str | None:
    for facts in profile.optimizers:
        if value == "fused":
            if not facts.has_fused:
                return f"{facts.name} has no fused form"
            if facts.differentiable:
                return f"{facts.name} is differentiable, which excludes a fused update"
            if facts.sparse_gradients:
                return f"{facts.name} gets sparse gradients, which excludes a fused update"
        elif not facts.has_foreach:
            return f"{facts.name} has one form only"
    return None


def _move_step_counts(optimizer: "Optimizer", on_device: bool) -> None:
    """Fused and captured updates want ``step`` beside the parameter, the others want it on the host."""
    import torch

    for group in optimizer.param_groups:
        for parameter in group["params"]:
            step = optimizer.state.get(parameter, {}).get("step")
            if isinstance(step, torch.Tensor):
                beside = on_device or bool(group.get("capturable"))
                device = parameter.device if beside else torch.device("cpu")
                kind = torch.float32 if on_device else step.dtype  # fused kernels count in float32
                optimizer.state[parameter]["step"] = step.to(device, kind)
