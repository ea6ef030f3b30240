"""Lines of the program below which whole steps run: those that call a trainer."""

from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile


def runs_steps(profile: Profile, place: Location) -> bool:
    """Whether the line was met in the forward and in the update: what runs there is a library's."""
    phases = {spot.phase for spot in profile.hotspots if spot.location == place and not spot.inner}
    return {"forward", "optimizer"} <= phases
