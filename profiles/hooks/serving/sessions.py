"""Sessions of ONNX Runtime that a program makes: threads, spinning, and the last input of one."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from advisor.profiles.facts.served import SessionFacts
from advisor.profiles.hooks.imports import after_import
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.user_lines import user_location

MODULE = "onnxruntime.capi.onnxruntime_inference_collection"
SPINNING = "session.intra_op.allow_spinning"
MOST = 8  # sessions that are described


class Sessions:
    """Notes how sessions are made.

    Args:
        scope: What is watched.
        clock: Their time is that of a model.
        called: Told that one is called.

    Attributes:
        spent_ns: Time in them so far.
        keeping: The latest session that ran and its input are kept.
        latest: Both of them.
    """

    def __init__(self, scope: Scope, clock: Clock, called: Callable[[], None]) -> None:
        self._scope = scope
        self._clock = clock
        self._called = called
        self.spent_ns = 0
        self._on = self.keeping = False
        self.latest: tuple[Any, Any] | None = None
        self._found: list[SessionFacts] = []
        self.patches: list[Patch] = []

    def install(self) -> None:
        """Watch from now on."""
        self._on = True
        after_import(MODULE, self._watch)

    def remove(self) -> None:
        """Watch no longer."""
        self._on = False
        for patch in reversed(self.patches):
            patch.remove()

    def facts(self) -> tuple[SessionFacts, ...]:
        """The different ones, in the order in which they were made."""
        return tuple(dict.fromkeys(self._found))

    def _watch(self, module: ModuleType) -> None:
        if self._on:
            self.patches += [
                Patch(module.InferenceSession, "__init__", self._wrap_init),
                Patch(module.Session, "run", self._wrap_run),
            ]
            for patch in self.patches:
                patch.install()

    def _wrap_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(session: Any, *args: Any, **kwargs: Any) -> None:
            original(session, *args, **kwargs)
            if self._scope.here() and len(self._found) < MOST:
                options = session.get_session_options()
                threads = int(options.intra_op_num_threads)
                self._found.append(SessionFacts(threads, _spins(options), user_location()))

        return init

    def _wrap_run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(session: Any, output_names: Any, input_feed: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._scope.here():
                return original(session, output_names, input_feed, *args, **kwargs)
            if self.keeping:
                self.latest = session, input_feed
            self._called()
            self._clock.push("forward")
            try:
                return original(session, output_names, input_feed, *args, **kwargs)
            finally:
                self.spent_ns += self._clock.pop()

        return run


def _spins(options: Any) -> bool:
    try:
        return bool(options.get_session_config_entry(SPINNING) != "0")
    except RuntimeError:  # never set: the default, which is to spin
        return True
