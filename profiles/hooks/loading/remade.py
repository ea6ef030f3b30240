"""Datasets that a program makes anew, such as for each epoch, told from those it uses beside each other."""

from collections.abc import Sequence
from typing import Any

from advisor.profiles.facts.profile import Location
from advisor.profiles.hooks.loading.loader_record import LoaderRecord, dataset_length, loader_settings

ALIKE = 0.9  # of the longer length: folds and random draws differ a little, training and validation much


def made_anew(
    records: Sequence[LoaderRecord], asked: dict[str, Any], location: Location | None
) -> int | None:
    """The number of the dataset that a new one stands for; ``None`` if it stands for itself.

    It does where the same line made a loader with the same arguments over a dataset of the same type and
    about the same length, and that one has served steps since. Of several such datasets, used side by side,
    it is the one whose turn was longest ago.

    Args:
        records: Of all loaders, in the order of construction, with steps credited.
        asked: The arguments of a loader over the new dataset.
        location: Where it is constructed.
    """
    if location is None:
        return None
    settings = loader_settings(asked, location)
    turns: dict[int, LoaderRecord] = {}
    for record in records:
        if record.settings == settings:
            turns.pop(record.ordinal, None)
            turns[record.ordinal] = record
    served = [record for record in turns.values() if record.steps]
    if not served:
        return None
    length = dataset_length(asked["dataset"])
    return next((record.ordinal for record in served if _alike(record.length, length)), None)


def _alike(one: int | None, other: int | None) -> bool:
    if one is None or other is None:
        return one is other
    return min(one, other) >= ALIKE * max(one, other)
