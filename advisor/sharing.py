"""Sharing the trials of a study with workers, where its storage is a server."""

from collections.abc import Callable
from contextlib import ExitStack

from advisor.baseline import Baseline
from advisor.batches import Batches
from advisor.keeping import SharedTrials
from advisor.result import ResultData
from advisor.searched import searched_space
from advisor.settings import Settings
from advisor.study import Study


def share(
    study: Study,
    baseline: Baseline,
    settings: Settings,
    batches: Batches,
    stack: ExitStack,
    result: Callable[[], ResultData],
    waiting: Callable[[str, float], None],
    warn: Callable[[str], None],
) -> SharedTrials | None:
    """The leases that workers on a server share with us; none in a file, which we alone write.

    Args:
        study: That is run.
        baseline: Of it.
        settings: Of this run.
        batches: Where the batch size stands in it.
        stack: Ends the leases.
        result: Makes the result as it is now.
        waiting: Called while waiting; may raise ``Interrupted``.
        warn: Is told what the user should know.
    """
    if study.store is None or study.store.url.dialect != "postgresql":
        return None
    from advisor.tuner_leases import TunerLeases

    machine = baseline.profile.machine
    space = searched_space(settings, batches, baseline.profile, 0.0)
    leases = TunerLeases(study.store.url, study.name, machine, space, waiting, warn)
    stack.enter_context(leases)
    leases.join(result().baseline.model_dump(mode="json", by_alias=True))
    return leases
