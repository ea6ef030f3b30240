"""Acting right after a module was imported, without importing it earlier than the program does."""

import importlib.machinery
import sys
from collections.abc import Callable, Collection, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Action = Callable[[ModuleType], None]


def after_import(name: str, action: Action) -> None:
    """Call ``action(module)`` once module ``name`` has been executed; at once if it is already imported.

    The module is found and loaded by whoever would have done it anyway; afterwards nothing of ours is
    left on ``sys.meta_path`` nor on the module. An error of the module's own import passes unchanged
    and the action waits for the next attempt. Several actions run in the order of their calls.
    A namespace package has no code to execute, hence nothing that could be waited for.

    Args:
        name: Full dotted name; parents are imported by the program, not by us.
        action: What it raises is raised by the program's import statement.
    """
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return
    for finder in sys.meta_path:
        if isinstance(finder, _Watch) and finder.name == name:
            finder.actions.append(action)
            return
    sys.meta_path.insert(0, _Watch(name, action))


def waiting() -> list[MetaPathFinder]:
    """What waits for an import in this process."""
    return [finder for finder in sys.meta_path if isinstance(finder, _Watch)]


def forget(waiters: Collection[MetaPathFinder]) -> None:
    """Wait no longer."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in waiters]


class _Watch(MetaPathFinder):
    """Waits for one module."""

    def __init__(self, name: str, action: Action) -> None:
        self.name = name
        self.actions = [action]
        self._searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Other tools' finders may search the whole path again, so that we would meet ourselves.
        if fullname != self.name or self._searching:
            return None
        self._searching = True
        try:
            spec = _real_spec(fullname, path, target, self)
        finally:
            self._searching = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            assert spec.loader is not None
            spec.loader = _Then(spec.loader, self)
        return spec

    def done(self, module: ModuleType) -> None:
        """The module stands: step aside, then act."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for action in self.actions:
            action(module)


class _Then(Loader):
    """The real loader, and afterwards the actions."""

    def __init__(self, loader: Loader, watch: _Watch) -> None:
        self._loader = loader
        self._watch = watch

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)  # programs ask a spec's loader for source and resources

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Given back before the module runs: it may ask its loader for its resources or its source.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        # A module may have put another object in its own place.
        self._watch.done(sys.modules.get(module.__name__, module))


def _real_spec(
    name: str, path: Sequence[str] | None, target: ModuleType | None, ours: MetaPathFinder
) -> importlib.machinery.ModuleSpec | None:
    for finder in list(sys.meta_path):
        find_spec = getattr(finder, "find_spec", None)  # what older tools put there may lack it
        if finder is ours or find_spec is None:
            continue
        spec: ModuleSpec | None = find_spec(name, path, target)
        if spec is not None:
            return spec
    return None
