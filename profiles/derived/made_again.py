"""What requests make that was made before: how much of their time it takes."""

from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.served import MadeAnew

USUAL = 0.2  # per request, from where it is no exception such as a model that is exchanged (by experiment)


def made_again(profile: Profile, kind: str) -> MadeAnew | None:
    """What of a kind is made in every fifth request or more; ``None`` where nothing is."""
    made = () if profile.served is None else profile.served.made
    return next((each for each in made if each.kind == kind and each.per_request >= USUAL), None)


def share_of_requests(profile: Profile, made: MadeAnew) -> float | None:
    """The share (0 to 1) of the counted time that it takes; ``None`` where it passes beside the requests."""
    phases, run = profile.phases, profile.run
    if phases is None or run is None or phases.step_ms <= 0:
        return None
    counted_ms = made.ms if run.requests_whole else made.inside_ms
    if counted_ms < made.ms / 2:
        return None
    return min(1.0, counted_ms / phases.step_ms)
