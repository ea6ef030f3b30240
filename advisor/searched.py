"""The space that settings ask for."""

from collections.abc import Mapping, Sequence

from advisor.batches import Batches
from advisor.profiles.profile import Profile
from advisor.settings import Settings, Value
from advisor.tuners.begun import as_begun
from advisor.tuners.constraints import SAVE_MEMORY
from advisor.tuners.knobs import KNOBS
from advisor.tuners.memory_model import limited
from advisor.tuners.space import Space, build_space


def searched_space(
    settings: Settings,
    batches: Batches,
    profile: Profile,
    detectable: float,
    begun: Mapping[str, Sequence[Value]] | None = None,
) -> Space:
    """Everything that may be tried on a program.

    Args:
        settings: What the user asks for.
        batches: Where the batch size stands in this run.
        profile: The program as it is.
        detectable: Smallest gain that can be told from noise; 0 leaves nothing out for it.
        begun: What the first part of a resumed study tried of each knob.
    """
    space = build_space(
        KNOBS,
        limited(profile, settings.max_memory),
        named=settings.knobs,
        fixed=settings.fixed,
        keep_batch=not batches.searched,
        max_batch=settings.max_batch,
        detectable=detectable,
        planned_steps=settings.steps_planned,
        ranks=settings.ranks,
        exempt=SAVE_MEMORY if settings.objective == "memory" else (),  # no habit of need alone then
    )
    if begun is not None:
        space = as_begun(space, begun, KNOBS)
    return batches.complete(space)
