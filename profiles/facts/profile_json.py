"""A profile as JSON values and back, without loss: told by a child, kept by a study, recorded for tests."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from advisor.profiles.facts.profile import Profile

PROFILE = TypeAdapter(Profile)

VERSION = 2
"""Of what ``as_json`` returns; it rises where a fact is removed, renamed, or gets another unit or default."""


def as_json(profile: Profile) -> dict[str, Any]:
    """The version, and all facts but those that have their default value.

    A number that is not finite stays one: ``json`` writes ``NaN`` and ``Infinity``, and reads them.
    """
    return {"version": VERSION, "profile": PROFILE.dump_python(profile, mode="json", exclude_defaults=True)}


def from_json(values: Mapping[str, Any]) -> Profile:
    """The profile that ``as_json`` returned as ``values``. A fact that they lack has its default.

    Raises:
        ValueError: They are of another version, or hold what is no fact of this one.
    """
    if values.get("version") != VERSION:
        raise ValueError(f"a profile of version {values.get('version')}; only version {VERSION} can be read")
    profile = PROFILE.validate_python(values["profile"])
    unknown = sorted(_unknown(values["profile"], PROFILE.dump_python(profile, mode="json")))
    if unknown:
        raise ValueError(f"no facts of a profile of version {VERSION}: {', '.join(unknown)}")
    return profile


def _unknown(given: Any, known: Any) -> set[str]:
    """Names in ``given`` that ``known`` lacks in the same place."""
    if isinstance(given, dict):
        below = (_unknown(value, known[name]) for name, value in given.items() if name in known)
        return set(given.keys() - known.keys()).union(*below)
    if isinstance(given, list | tuple):
        return set().union(*map(_unknown, given, known))
    return set()
