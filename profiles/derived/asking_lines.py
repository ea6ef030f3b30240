"""Lines of a program at which a trained model is asked: a library may do much there beside the model."""

from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile


def asks(profile: Profile, place: Location) -> bool:
    """Whether a model that answers requests was met at this line, too, as in a call of ``generate``."""
    if not profile.serves:
        return False
    spots = (spot.location for spot in profile.hotspots if spot.phase == "forward")
    return any((spot.file, spot.line) == (place.file, place.line) for spot in spots)
