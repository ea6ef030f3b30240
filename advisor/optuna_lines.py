"""Optuna's studies as JSON values and back, through Optuna's own API; its tables are never touched.

Optuna commits every trial by itself. A study that is being rebuilt is therefore marked, and one that a killed
process left half built is built anew.
"""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from advisor.database import Database
from advisor.errors import UsageError, clean
from advisor.optuna_tables import optuna_storage, told_by_optuna

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

MARK = "advisor:importing"


def read_optuna(database: Database, study: str) -> Iterator[dict[str, Any]]:
    """Optuna's studies of a study of ours: each one's own line, then its trials by number."""
    with database.reading() as connection:
        if not sa.inspect(connection).has_table("studies"):
            return
    import optuna

    with told_by_optuna(database.url):
        storage = optuna_storage(database)
        for name in sorted(optuna.get_all_study_names(storage)):
            if not belongs(name, study):
                continue
            found = optuna.load_study(study_name=name, storage=storage)
            yield {
                "suffix": name.removeprefix(study),
                "directions": [direction.name.lower() for direction in found.directions],
                "user_attrs": found.user_attrs,
                "system_attrs": {
                    key: value
                    for key, value in storage.get_study_system_attrs(
                        storage.get_study_id_from_name(name)
                    ).items()
                    if key != MARK
                },
            }
            for trial in found.get_trials(deepcopy=False):
                yield _as_json(trial)


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna says nothing of what is done here."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def belongs(optuna_name: str, study: str) -> bool:
    """It is the study's own name, or that with an ending that no name of a study can have."""
    return re.fullmatch(re.escape(study) + r"([^A-Za-z0-9._-].*)?", optuna_name, re.DOTALL) is not None


def check_optuna(lines: Sequence[dict[str, Any]]) -> None:
    """Check the last line of those that ``read_optuna`` gave, as far as Optuna would refuse it.

    Raises:
        ValueError: It is no study or trial of Optuna, or it has another place.
    """
    last = lines[-1]
    if "suffix" in last:
        suffix, directions = last["suffix"], last.get("directions")
        if not isinstance(suffix, str) or len(suffix) > 100 or not belongs("x" + suffix, "x"):
            raise ValueError(f"suffix cannot be {clean(repr(suffix), 40)}")
        if not isinstance(directions, list) or not set(directions) <= {"maximize", "minimize"}:
            raise ValueError("directions are maximize or minimize")
        if len(directions) != 1:
            raise ValueError("a study has one direction")
        for name in ("user_attrs", "system_attrs"):
            if not isinstance(last.get(name), dict):
                raise ValueError(f"{name} is missing")
        return
    begins = max((at for at, one in enumerate(lines) if "suffix" in one), default=None)
    if begins is None:
        raise ValueError("a trial of Optuna stands before its study")
    number = _from_json(last).number
    if number != len(lines) - begins - 2:
        raise ValueError(f"trial {number} of Optuna is out of order")


def write_optuna(database: Database, study: str, lines: Sequence[dict[str, Any]]) -> list[str]:
    """Rebuild Optuna's studies from lines that were checked; they stay marked until ``unmark``.

    Returns:
        Their names.

    Raises:
        UsageError: Optuna has a study of that name, which is not ours to replace.
    """
    if not lines:
        return []
    import optuna
    from optuna.study import StudyDirection

    names: list[str] = []
    with told_by_optuna(database.url), quiet():
        storage = optuna_storage(database)
        building: optuna.Study | None = None
        for one in lines:
            if "suffix" not in one:
                assert building is not None
                building.add_trial(_from_json(one))
                continue
            name = study + one["suffix"]
            names.append(name)
            _make_room(storage, name)
            number = storage.create_new_study([StudyDirection[one["directions"][0].upper()]], name)
            storage.set_study_system_attr(number, MARK, True)
            for key, value in one["user_attrs"].items():
                storage.set_study_user_attr(number, key, value)
            for key, value in one["system_attrs"].items():
                storage.set_study_system_attr(number, key, value)
            building = optuna.load_study(study_name=name, storage=storage)
    return names


def unmark(database: Database, names: Sequence[str]) -> None:
    """Say that these studies are whole."""
    with told_by_optuna(database.url):
        storage = optuna_storage(database)
        for name in names:
            storage.set_study_system_attr(storage.get_study_id_from_name(name), MARK, False)


def _make_room(storage: Any, name: str) -> None:
    """Delete what a killed process left of an import; refuse any other study of that name."""
    try:
        number = storage.get_study_id_from_name(name)
    except KeyError:
        return
    if not storage.get_study_system_attrs(number).get(MARK):
        raise UsageError(
            f"Optuna has a study '{clean(name)}' in this database already", hint="`--study NAME` renames ours"
        )
    storage.delete_study(number)


def _as_json(trial: "FrozenTrial") -> dict[str, Any]:
    from optuna.distributions import distribution_to_json

    kinds = {name: distribution_to_json(one) for name, one in trial.distributions.items()}
    return {
        "number": trial.number,
        "state": trial.state.name,
        "values": None if trial.values is None else [_number(value) for value in trial.values],
        "params": trial.params,
        "distributions": kinds,
        "user_attrs": trial.user_attrs,
        "system_attrs": trial.system_attrs,
        "intermediate": {str(step): _number(value) for step, value in trial.intermediate_values.items()},
        "start": trial.datetime_start and trial.datetime_start.isoformat(),
        "complete": trial.datetime_complete and trial.datetime_complete.isoformat(),
    }


def _from_json(line: dict[str, Any]) -> "FrozenTrial":
    """A trial as Optuna takes it.

    Raises:
        ValueError: It is none.
    """
    from optuna.distributions import json_to_distribution
    from optuna.trial import TrialState, create_trial

    try:
        values = line["values"]
        trial = create_trial(
            state=TrialState[line["state"]],
            values=None if values is None else [float(value) for value in values],
            params=line["params"],
            distributions={name: json_to_distribution(text) for name, text in line["distributions"].items()},
            user_attrs=line["user_attrs"],
            system_attrs=line["system_attrs"],
            intermediate_values={int(step): float(value) for step, value in line["intermediate"].items()},
        )
        trial.number = int(line["number"])
        trial.datetime_start = line["start"] and datetime.fromisoformat(line["start"])
        trial.datetime_complete = line["complete"] and datetime.fromisoformat(line["complete"])
    except KeyError as error:
        raise ValueError(f"no trial of Optuna: {clean(str(error), 60)}") from None
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"no trial of Optuna: {clean(str(error), 100)}") from None
    if len(values or [0]) != 1:
        raise ValueError("a trial of Optuna has one value")
    return trial


def _number(value: float) -> float | str:
    """JSON has no word for infinity; Optuna has."""
    return value if math.isfinite(value) else repr(value)
