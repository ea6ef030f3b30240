"""Replacing an attribute of a module or class for a while, and putting back exactly what was there."""

import functools
import inspect
import os
import weakref
from _thread import get_ident
from collections.abc import Callable
from typing import Any


class Patch:
    """One attribute replaced by a wrapper of it.

    Args:
        owner: The module or class.
        name: The attribute; it may be inherited, then removing deletes ours again.
        make: Given what was there, returns the replacement. It must go on working as a mere passage
            after removal: programs keep references to it.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self._owner = owner
        self._name = name
        self._make = make
        self._own = False
        self.installed = False
        self.original: Any = None
        self.replacement: Any = None

    def install(self) -> None:
        """Put the wrapper in place."""
        self._own = self._name in vars(self._owner)
        self.original = vars(self._owner)[self._name] if self._own else _inherited(self._owner, self._name)
        self.replacement = functools.update_wrapper(self._make(self.original), self.original)
        setattr(self._owner, self._name, self.replacement)
        self.installed = True

    def remove(self) -> None:
        """Put back what was there; what another tool has put over ours stays."""
        if self.installed and vars(self._owner).get(self._name) is self.replacement:
            if self._own:
                setattr(self._owner, self._name, self.original)
            else:
                delattr(self._owner, self._name)
        self.installed = False


def _inherited(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:  # of a class of TorchScript, where only instances know
        return inspect.getattr_static(owner, name)


class Scope:
    """The process and the thread whose training is watched.

    Events from forked children and from other threads, such as a prefetcher's, are not ours to time.

    Attributes:
        watched: Identity of that thread, and 0, which is nobody's, while nothing is watched. What runs in
            every step compares it with ``get_ident()`` itself; elsewhere ``here`` does.
    """

    def __init__(self) -> None:
        self.watched = 0
        self._thread = get_ident()
        self._settled = False

    @property
    def active(self) -> bool:
        """Whether anything is watched."""
        return self.watched != 0

    @active.setter
    def active(self, on: bool) -> None:
        self.watched = self._thread if on else 0

    def enter(self) -> None:
        """Start watching; a child forked from now on is not watched."""
        self.active = True
        this = weakref.ref(self)

        def leave() -> None:
            scope = this()
            if scope is not None:
                scope.active = False

        os.register_at_fork(after_in_child=leave)

    def here(self) -> bool:
        """Whether the caller is what is watched."""
        return get_ident() == self.watched

    def settle(self) -> None:
        """A backward or an update begins: the thread of the first one is the one that trains."""
        if not self._settled and self.watched:
            self._settled = True
            self._thread = self.watched = get_ident()


def untraced(function: Any, *, below: bool = False) -> Callable[..., Any]:
    """Keep dynamo from compiling a wrapper of ours; the functions it calls are compiled as ever.

    Args:
        below: Whether those are left out as well, for a hook that calls nothing of the program's.
    """
    # from C: torch._dynamo itself takes seconds to import, and most programs never need it
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

    called = _FrameAction.SKIP if below else _FrameAction.DEFAULT
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, called))
    wrapper: Callable[..., Any] = function
    return wrapper
