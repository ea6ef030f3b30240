"""What Optuna is told of trials that workers run: one study of Optuna's per group of like machines.

Optuna numbers its trials itself, and its ``ask`` gives any waiting trial to anybody. So trials are added as
running ones that carry the number and the fence of their lease; nothing is told that our own table does not
hold, and whatever a lost worker left is settled from there.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.contract import Value
from advisor.leases import Ended, Lease, TrialLeases

if TYPE_CHECKING:
    import optuna

LEASE = "lease"  # the attribute of a trial of Optuna's
UNLISTED = "advisor:unlisted"  # that of settings which are no parameters of it
SHOWN = 12  # characters of a fingerprint in a name


def optuna_name(study: str, fingerprint: str) -> str:
    """The name of Optuna's study of a group; no study of ours can have it."""
    return f"{study}@{fingerprint[:SHOWN]}"


def announce(
    study: "optuna.Study",
    lease: Lease,
    config: Mapping[str, Value],
    choices: Mapping[str, Sequence[Value]],
) -> int:
    """Add a running trial to Optuna's study, unless it is there from an earlier attempt; its number.

    Optuna wants the choices of a parameter to be the same in all trials. Those of workers on like machines
    may differ, where they follow from what each of them measured of the program: the first worker's count,
    and a setting that is not among them is told as an attribute.
    """
    mark = [lease.number, lease.fence]
    if (before := _marked(study, mark)) is not None:
        return before
    try:
        study.add_trial(_announced(study, mark, config, choices))
    except ValueError:  # another worker has just announced other choices
        study.add_trial(_announced(study, mark, config, choices))
    number = _marked(study, mark)
    assert number is not None
    return number


def _announced(
    study: "optuna.Study",
    mark: list[int],
    config: Mapping[str, Value],
    choices: Mapping[str, Sequence[Value]],
) -> "optuna.trial.FrozenTrial":
    import optuna

    known: dict[str, Any] = {}
    for trial in study.get_trials(deepcopy=False):
        known = {**trial.distributions, **known}
    listed: dict[str, optuna.distributions.CategoricalDistribution] = {
        name: known.get(name) or optuna.distributions.CategoricalDistribution(values)
        for name, values in choices.items()
    }
    searched = {name: config[name] for name in choices if config[name] in listed[name].choices}
    unlisted = {name: config[name] for name in choices if name not in searched}
    return optuna.trial.create_trial(
        state=optuna.trial.TrialState.RUNNING,
        params=searched,
        distributions={name: listed[name] for name in searched},
        user_attrs={LEASE: mark} | ({UNLISTED: unlisted} if unlisted else {}),
    )


def settle(study: "optuna.Study", leases: TrialLeases) -> int:
    """Tell Optuna what was recorded, and that nobody runs what nobody has a lease of; how many were told."""
    from optuna.trial import TrialState

    # In this order: who announces has a lease before and while Optuna has the trial.
    running = {trial.number: trial.user_attrs.get(LEASE) for trial in _running(study)}
    leased = leases.running()
    untold = leases.untold()
    told = 0
    for ended in untold:
        if ended.asked in running:
            state = TrialState.PRUNED if ended.state == "pruned" else _state(ended.value)
            _tell(study, ended.asked, state, ended.value)
            told += 1
        leases.mark_told(ended.number)
    kept = {ended.asked for ended in untold}
    for asked, mark in running.items():
        if asked in kept or not isinstance(mark, list) or len(mark) != 2:
            continue
        lease = (mark[0], mark[1])
        if lease in leased and leased[lease] in (None, asked):
            continue
        value = _recorded(leases.finished(), asked)
        _tell(study, asked, _state(value), value)
        told += 1
    return told


def _state(value: float | None) -> "optuna.trial.TrialState":
    from optuna.trial import TrialState

    return TrialState.FAIL if value is None else TrialState.COMPLETE


def _recorded(finished: Sequence[Ended], asked: int) -> float | None:
    return next((one.value for one in finished if one.asked == asked), None)


def _running(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def _marked(study: "optuna.Study", mark: list[int]) -> int | None:
    numbers = [trial.number for trial in _running(study) if trial.user_attrs.get(LEASE) == mark]
    return min(numbers, default=None)


def _tell(study: "optuna.Study", number: int, state: "optuna.trial.TrialState", value: float | None) -> None:
    """Tell the end of a trial; another worker may be doing the same."""
    from optuna.exceptions import UpdateFinishedTrialError

    try:
        study.tell(number, value, state=state, skip_if_finished=True)
    except UpdateFinishedTrialError:
        return
