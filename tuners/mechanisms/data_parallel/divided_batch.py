"""Programs whose batch cannot be divided among workers that average what they learn."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused

SCRIPT = "a script makes its model and optimizer itself; strategies are tried on workloads"
SUMMED = "the loss is summed over the batch, and averaging over ranks would divide its gradient"
ITERABLE = "an iterable dataset gives every rank the same samples"


def refuse_undivided(profile: Profile) -> None:
    """Look at the facts of the program as it is.

    Raises:
        Refused: Several workers, each with its share of the batch, would not learn what one process does.
    """
    if profile.target_kind == "script":
        raise Refused(SCRIPT)
    refuse_dividing_batch(profile)


def refuse_dividing_batch(profile: Profile) -> None:
    """The same for programs whose loop may be anybody's.

    Raises:
        Refused: As ``refuse_undivided``.
    """
    parallel = next((root.parallel for root in profile.roots if root.parallel), None)
    if parallel is not None:
        raise Refused(f"the program uses {parallel} itself")
    if profile.run is not None and profile.run.sum_reduced_loss:
        raise Refused(SUMMED)
    if profile.loader is not None and profile.loader.iterable:
        raise Refused(ITERABLE)


def refuse_special_parameters(profile: Profile) -> None:
    """Look whether all gradients can travel in one kind of message.

    Raises:
        Refused: Parameters are of several types, or their gradients are sparse.
    """
    types = sorted({name for root in profile.roots for name in root.dtypes})
    if len(types) > 1:
        raise Refused(f"parameters of several types ({', '.join(types)}) do not fit into one flat buffer")
    if any(optimizer.sparse_gradients for optimizer in profile.optimizers):
        raise Refused("sparse gradients cannot be divided among ranks")
