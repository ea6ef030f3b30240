"""A profile as the limits leave it that a user sets."""

from dataclasses import replace

from advisor.base.settings import Settings
from advisor.profiles.facts.profile import Profile
from advisor.tuners.space.memory_model import limited


def within_limits(profile: Profile, settings: Settings) -> Profile:
    """With no more memory than is allowed; under a latency limit nothing waits to be sorted with others."""
    left = limited(profile, settings.max_memory)
    if settings.latency_limit_s is None or left.run is None:
        return left
    return replace(left, run=replace(left.run, requests_padding=None))
