"""What loader workers would get a copy of, and should not."""

from dataclasses import dataclass

from advisor.profiles.facts.observed import Location


@dataclass(frozen=True)
class Inherited:
    """An object that the dataset, or the function that joins its items, held before the first item was made.

    ``kind`` is ``handle`` (a file, archive, connection: copies share its position), ``generator`` (of random
    numbers: copies draw the same) or ``objects`` (a long list of Python objects: copies come about as they
    are read). ``name`` is its path, such as ``dataset.archive``, ``type`` its class, ``location`` the line
    that sets it, ``bytes`` what objects take, by a sample. ``drawn`` is whether its state changed while
    items were made in the program's own process; ``None`` where none were.
    """

    kind: str
    name: str
    type: str
    location: Location | None = None
    drawn: bool | None = None
    bytes: int = 0
