"""What may not stand together around an update: how it is made, and in which precision."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Config


def sparse_gradients_are_not_fused(config: Config, profile: Profile) -> str | None:
    """Fused updates take dense gradients only."""
    if config.get("sparse_embedding") == "on" and config.get("optimizer_implementation") == "fused":
        return "a fused optimizer takes no sparse gradients (sparse_embedding)"
    return None


def updates_in_backward_stand_alone(config: Config, profile: Profile) -> str | None:
    """A parameter updated within backward has no moment at which its gradient is scaled or summed up."""
    if config.get("optimizer_in_backward") != "on":
        return None
    excluded = {"amp": "fp16", "lr_scaling": None, "accumulation": None}
    plain = {"lr_scaling": "none", "accumulation": 1}
    for name, value in excluded.items():
        chosen = config.get(name)
        if chosen is not None and (chosen == value if value else chosen != plain[name]):
            return f"optimizer_in_backward excludes {name}={chosen}"
    return None


def compiled_updates_are_plain(config: Config, profile: Profile) -> str | None:
    """What is compiled is the update that the program calls, made of operations of its own."""
    if config.get("compile_region") != "optimizer":
        return None
    if config.get("optimizer_implementation") == "fused":
        return "a fused update is one kernel already, which torch does not compile (compile_region=optimizer)"
    if config.get("optimizer_in_backward") == "on":
        return "optimizer_in_backward leaves no update after backward to compile (compile_region=optimizer)"
    return None


def low_precision_is_chosen_once(config: Config, profile: Profile) -> str | None:
    """Autocast takes float32 parameters; its loss scaling cannot unscale gradients in bfloat16."""
    amp = str(config.get("amp", "off"))
    if config.get("low_precision_parameters") != "bf16" or amp == "off":
        return None
    return f"low_precision_parameters=bf16 computes in 16 bits already, which excludes amp={amp}"
