"""Whether the device has units that compute faster in fewer bits."""

from advisor.profiles.facts.profile import Profile

WORTHWHILE_SPEEDUP = 1.2  # of a bf16 matmul over a float32 one; below, casts eat the gain
BF16_CAPABILITY = (8, 0)  # the first NVIDIA generation with bf16 and TF32 units


def no_units(profile: Profile) -> str | None:
    """Why bf16 and TF32 cannot help on the profile's device; ``None`` where they can."""
    machine = profile.machine
    if not profile.device.startswith("cuda"):
        if machine.bf16_speedup is None:
            return "the bf16 rate of this CPU was not measured"
        if machine.bf16_speedup < WORTHWHILE_SPEEDUP:
            return (
                f"a bf16 matmul runs at {machine.bf16_speedup:.1f} times the float32 rate on this CPU, "
                f"less than the {WORTHWHILE_SPEEDUP} where it can pay"
            )
        return None
    _, _, ordinal = profile.device.partition(":")
    gpus = machine.gpus[int(ordinal or 0) :][:1] or machine.gpus
    if not gpus:
        return "the capability of the GPU is not known"
    capability = min(gpu.capability for gpu in gpus)
    if capability < BF16_CAPABILITY:
        return f"the GPU has capability {capability[0]}.{capability[1]}; bf16 and TF32 need 8.0"
    return None
