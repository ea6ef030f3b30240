"""What of a dataset becomes another thing once workers have copies of it."""

from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.facts.profile import LoaderFacts


def handle_of(loader: LoaderFacts) -> Inherited | None:
    """The first open file or connection that workers share, or would."""
    return next((each for each in loader.inherited if each.kind == "handle"), None)


def generator_of(loader: LoaderFacts) -> Inherited | None:
    """The first generator of its own that items are drawn from; one that was only used before is none.

    Where workers make the items nobody sees them draw: there each generator counts.
    """
    found = [each for each in loader.inherited if each.kind == "generator" and each.drawn is not False]
    return next(iter(found), None)


def open_in_each(name: str) -> str:
    """What to do about a handle, by its path."""
    attribute = name.rpartition(".")[2]
    return (
        f"Open it in each worker: set `self.{attribute} = None` in `__init__`, and open it in `__getitem__` "
        "where it is `None`; then more workers are worth trying."
    )


def against_workers(loader: LoaderFacts, workers: int) -> str | None:
    """Why so many workers would read or draw something else than the program itself; ``None`` if not.

    One worker is the only one that reads through a handle, as long as the program does not.
    """
    generator, handle = generator_of(loader), handle_of(loader)
    if generator is not None and workers:
        return (
            f"{generator.name} ({generator.type}{_at(generator)}) would be copied into every worker, and all "
            "would draw the same numbers: make it in each worker from torch.initial_seed()"
        )
    if handle is not None and workers > 1:
        return (
            f"{handle.name} is an open {handle.type}{_at(handle)}, whose position several workers would "
            "share: open it in each worker, then more are worth trying"
        )
    return None


def _at(each: Inherited) -> str:
    return "" if each.location is None else f", set at line {each.location.line}"
