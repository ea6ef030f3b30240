"""A window of one configuration: in a process of its own, or in one that is switched to it.

A process that is switched makes its loaders' iterators anew, so each window starts from an empty queue. What
their workers took to start is counted apart, as it is in a process of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from advisor.tuners.comparing.windows import HOPELESS, Window
from advisor.tuners.comparing.worker_starts import share_of_restarts
from advisor.tuners.knob import Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import Slot, SlotMeasured

if TYPE_CHECKING:
    from advisor.tuners.comparing.duel import Arena

LEAST_S = 10.0  # that a window may take in any case


def fresh_window(arena: "Arena", config: Mapping[str, Value], number: int, *, hold: bool = False) -> Window:
    """The window of a process that is started for it, or was and waits before its first batch.

    Args:
        arena: Starts it, and knows how long the window is.
        config: What it runs under.
        number: Of the trial.
        hold: It goes on, in ``held`` of the arena; its outcome is not there.

    Raises:
        TrialFailed: The program failed, or came to its end before.
    """
    drop, steps = arena.window_steps(config, fresh=True)
    session = arena.ahead.take(config)
    if session is None:
        session = arena.start(config, number)
    else:
        arena.log = str(session.folder)
    try:
        slot = session.window(steps, drop=drop, limit_s=_limit_s(arena, steps))
        message, unseen = session.last, _unseen(arena, session, config, drop + steps, slot.mean_s)
        if hold:
            arena.held.keep(config, session)
        return Window(slot, message, None if hold else session.stop(), session.startup_s, unseen)
    except SessionEnded as ended:
        raise TrialFailed(Failure("user_error", f"the program ended before {drop + steps} steps")) from ended
    finally:
        if not arena.held.has(session):
            session.kill()


def switched_window(arena: "Arena", session: Running, config: Mapping[str, Value]) -> Window:
    """The window of a process that goes over to the configuration now, and goes on afterwards.

    Raises:
        SessionEnded: The program came to its end before.
        TrialFailed: It failed.
    """
    drop, steps = arena.window_steps(config)
    slot = session.window(steps, drop=drop, config=config, limit_s=_limit_s(arena, steps))
    message, epoch = session.last, _epoch(arena, config)
    if epoch is not None and steps < epoch and len(message.kept) < len(slot.step_s):
        # a start that fell into a part of an epoch would have too much weight: it is counted as if it had not
        slot = replace(slot, step_s=tuple(s for n, s in enumerate(slot.step_s) if n not in message.kept))
    return Window(slot, message, unseen=_unseen(arena, session, config, steps, slot.mean_s))


def known_window(arena: "Arena", slots: Sequence[Slot]) -> Window | None:
    """What a process has shown of the program as it is, in place of a window of it.

    Args:
        arena: Knows how long a window would be.
        slots: Of one process.

    Returns:
        ``None`` where that is something else: workers had run ahead, or a window holds starts of epochs,
        which slots do not count.
    """
    epoch, (_, steps) = _epoch(arena, arena.present), arena.window_steps(arena.present)
    if not slots or arena.queue_depth(arena.present) or (epoch is not None and steps >= epoch):
        return None
    slot = replace(
        slots[0],
        step_s=tuple(chain.from_iterable(slot.step_s for slot in slots)),
        cpu_s=sum(slot.cpu_s for slot in slots),
        other_cpu_s=sum(slot.other_cpu_s for slot in slots),
        throttled_s=sum(slot.throttled_s for slot in slots),
    )
    return Window(slot, SlotMeasured())


def _limit_s(arena: "Arena", steps: int) -> float:
    return max(LEAST_S, HOPELESS * steps * arena.step_s)


def _unseen(
    arena: "Arena", session: Running, config: Mapping[str, Value], steps: int, step_s: float
) -> float:
    """What starting workers adds to the time of an epoch, of which these steps hold no start; as a share."""
    full, epochs = {**arena.present, **config}, arena.epochs
    if epochs is None or not arena.queue_depth(full) or steps > (_epoch(arena, config) or 0):
        return 0.0
    loader, start_s = session.facts().profile.loader, session.last.loader_start_s
    if loader is not None and start_s:  # the facts have the mean of all settings that were switched to
        loader = replace(loader, worker_start_ms=1e3 * start_s)
    return share_of_restarts(loader, full, epochs, step_s)


def _epoch(arena: "Arena", config: Mapping[str, Value]) -> int | None:
    """Steps of an epoch, where they are known."""
    return None if arena.epochs is None else arena.epochs.steps({**arena.present, **config})
