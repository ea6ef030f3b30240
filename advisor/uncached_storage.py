"""Optuna's storage in a database without its copy of every trial in memory.

Optuna wraps a database in a cache of every trial that was read: about 8 kB for one of eleven parameters. A
study that never asks for them all again does not need it.
"""

from collections.abc import Container, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState


class UncachedStorage(BaseStorage):
    """Passes every call on to ``backend``."""

    def __init__(self, backend: RDBStorage) -> None:
        self.backend = backend

    def create_new_study(self, directions: Sequence[StudyDirection], study_name: str | None = None) -> int:
        """As the database does it."""
        return self.backend.create_new_study(directions, study_name)

    def delete_study(self, study_id: int) -> None:
        """As the database does it."""
        self.backend.delete_study(study_id)

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """As the database does it."""
        self.backend.set_study_user_attr(study_id, key, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """As the database does it."""
        self.backend.set_study_system_attr(study_id, key, value)

    def get_study_id_from_name(self, study_name: str) -> int:
        """As the database does it."""
        return self.backend.get_study_id_from_name(study_name)

    def get_study_name_from_id(self, study_id: int) -> str:
        """As the database does it."""
        return self.backend.get_study_name_from_id(study_id)

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """As the database does it."""
        return self.backend.get_study_directions(study_id)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """As the database does it."""
        return self.backend.get_study_user_attrs(study_id)

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """As the database does it."""
        return self.backend.get_study_system_attrs(study_id)

    def get_all_studies(self) -> list[FrozenStudy]:
        """As the database does it."""
        return self.backend.get_all_studies()

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """As the database does it."""
        return self.backend.create_new_trial(study_id, template_trial)

    def set_trial_param(
        self, trial_id: int, param_name: str, param_value_internal: float, distribution: BaseDistribution
    ) -> None:
        """As the database does it."""
        self.backend.set_trial_param(trial_id, param_name, param_value_internal, distribution)

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        """As the database does it."""
        return self.backend.get_trial_id_from_study_id_trial_number(study_id, trial_number)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """As the database does it."""
        return self.backend.set_trial_state_values(trial_id, state, values)

    def set_trial_intermediate_value(self, trial_id: int, step: int, intermediate_value: float) -> None:
        """As the database does it."""
        self.backend.set_trial_intermediate_value(trial_id, step, intermediate_value)

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """As the database does it."""
        self.backend.set_trial_user_attr(trial_id, key, value)

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """As the database does it."""
        self.backend.set_trial_system_attr(trial_id, key, value)

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """As the database does it."""
        return self.backend.get_trial(trial_id)

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """As the database does it."""
        return self.backend.get_all_trials(study_id, deepcopy, states)

    def remove_session(self) -> None:
        """As the database does it."""
        self.backend.remove_session()
