"""Optuna's own tables in our database, so that ``optuna-dashboard`` opens it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from sqlalchemy.exc import DBAPIError

from advisor.base.errors import EnvironmentProblem, UsageError, clean
from advisor.base.fault_points import hit
from advisor.storage.database import Database, engine_address
from advisor.storage.storage_error import problem, told
from advisor.storage.storage_url import StorageUrl

if TYPE_CHECKING:
    import optuna

Direction = Literal["maximize", "minimize"]


def open_study(
    database: Database,
    name: str,
    sampler: "optuna.samplers.BaseSampler | None",
    direction: Direction,
) -> "optuna.Study":
    """Optuna's study of that name, created when there is none.

    Args:
        database: Where its tables are.
        name: Of the study.
        sampler: Its sampler; Optuna's default one without it.
        direction: Of the objective.

    Raises:
        UsageError: The stored one has another direction, which Optuna itself would not mention.
        EnvironmentProblem: The database cannot be used, or another version of Optuna made its tables.
    """
    import optuna

    storage = optuna_storage(database)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with told_by_optuna(database.url):
            study = optuna.create_study(
                study_name=name, storage=storage, sampler=sampler, direction=direction, load_if_exists=True
            )
            stored = study.direction.name.lower()
    finally:
        optuna.logging.set_verbosity(verbosity)
    if stored != direction:
        raise UsageError(f"study '{name}' is to {stored}, not to {direction}", hint="another `--study NAME`")
    return study


def end_running(database: Database, name: str, values: Mapping[int, float | None]) -> None:
    """Tell Optuna about trials that nobody runs any more.

    Args:
        database: Where its tables are.
        name: Of the study; nothing happens when Optuna has none of that name.
        values: What was recorded, by Optuna's trial number; others are told to have failed.
    """
    import optuna
    from optuna.trial import TrialState

    with told_by_optuna(database.url):
        try:
            study = optuna.load_study(study_name=name, storage=optuna_storage(database))
        except KeyError:
            return
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            value = values.get(trial.number)
            state = TrialState.FAIL if value is None else TrialState.COMPLETE
            study.tell(trial.number, value, state=state)
        # Queued by one that was killed before it took it: the next to ask would be given it for another.
        for _ in study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            study.tell(study.ask(), state=TrialState.FAIL)


@contextmanager
def told_by_optuna(url: StorageUrl) -> Iterator[None]:
    """Say what happened where Optuna says "invalid data" to every error of the database."""
    import optuna

    with told(url):
        try:
            yield
        except optuna.exceptions.StorageInternalError as error:
            cause = error.__cause__
            if isinstance(cause, DBAPIError):
                raise problem(cause.orig or cause, url) from error
            raise EnvironmentProblem(
                "Optuna cannot use the storage", cause=clean(str(cause or error))
            ) from error


def optuna_storage(database: Database) -> "optuna.storages.RDBStorage":
    """Optuna's storage on our connections; it creates its tables where they are missing.

    The schema lock is held here: of many processes that create them at once most would fail.
    """
    import optuna

    address = engine_address(database.url).replace("{", "{{").replace("}", "}}")  # Optuna formats it
    with database.schema_lock():
        try:
            with told(database.url):
                hit("optuna_schema.before")
                storage = optuna.storages.RDBStorage(address, engine_kwargs=dict(database.options))
                hit("optuna_schema.after")
                return storage
        except RuntimeError as error:
            if isinstance(error, EnvironmentProblem):
                raise
            raise EnvironmentProblem(
                "another version of Optuna made the tables of the study",
                cause=clean(str(error)),
                hint="another `--study NAME` in another `--storage`",
                code="storage",
            ) from error
