"""What a line of the program takes of a step, by what sampling met and by the calls that were followed."""

from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile


def line_share(profile: Profile, line: LineCalls) -> float:
    """Share (0 to 1) of the step in which a line runs, without the backward of what it computes.

    Calls are shares of the time of all calls, and much of a phase may be none. A line takes no more than
    the line that sampling met most beside it leaves, and no less than it was met itself.
    """
    phases = profile.phases
    if phases is None or not hasattr(phases, f"{line.phase}_ms"):
        return 0.0
    met = {spot.location: spot.share for spot in profile.hotspots if spot.phase == line.phase}
    own = met.pop(line.location, 0.0)
    return phases.share(line.phase) * max(own, min(line.share, 1 - max(met.values(), default=0.0)))
