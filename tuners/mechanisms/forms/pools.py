"""Runtimes that have threads of their own, and so settings for them."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.packages import missing

OWN_POOL = ("onnxruntime", "openvino")


def refuse_without(profile: Profile, *runtimes: str) -> None:
    """For knobs of such threads.

    Raises:
        Refused: None of these runtimes is installed, or the model is not on a CPU.
    """
    if profile.device.startswith("cuda"):
        raise Refused("runtimes are tried on CPUs only")
    lacking = [missing(runtime) for runtime in runtimes]
    if all(lacking):
        raise Refused(str(lacking[0]))
