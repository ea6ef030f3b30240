"""What a program does with its own process, in a sentence each: a note beside the findings."""

from pathlib import Path

from advisor.profiles.facts.profile import Profile

SENTENCES = {
    "folder": "the program goes to the folder `{detail}` ({at}): relative names begin there from then on",
    "sigterm": "the program catches SIGTERM ({at}): a trial that is ended may run that handler, and what it "
    "writes is kept apart as all that a trial writes",
    "clock_end": "the wall clock ends the program ({at}): with faster steps it makes more of them, and takes "
    "as long",
    "clock_rate": "the program sets its learning rate by the wall clock ({at}): at another speed that is "
    "another schedule, and losses of two runs differ for that reason as well",
}
"""Kind of habit: what is said of it."""


def habits_told(profile: Profile) -> list[str]:
    """A sentence for each kind of habit that was met, with the first line of it."""
    habits = profile.host.habits if profile.host is not None else ()
    met = {each.kind: each for each in reversed(habits)}
    places = {kind: f"{Path(each.location.file).name}:{each.location.line}" for kind, each in met.items()}
    return [
        said.format(detail=met[kind].detail, at=places[kind])
        for kind, said in SENTENCES.items()
        if kind in met
    ]
