"""Calls of a database that may answer late, never, or not for a while.

Each call runs in a thread of its own and has a deadline here, for a server that hangs keeps its client
waiting whatever timeouts it was given. After that the connection is cut, which also ends the thread, and
the call is repeated on a new one. So a call must be harmless when it happens twice.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

from advisor.errors import EnvironmentProblem
from advisor.lease_times import LeaseTimes

LOOK_S = 0.2  # between two looks whether somebody asks us to stop
BACK_OFF_S = (0.1, 5.0)  # first and longest pause before a call is repeated
ANSWERLESS = "the database does not answer"
# As ``advisor.storage_error`` tells them. A wrong password or a missing database does not pass.
PASSING = (
    ANSWERLESS, "PostgreSQL reports an error", "no PostgreSQL server answers",
    "PostgreSQL takes no more connections", "TLS to PostgreSQL failed",
    "the connection to PostgreSQL was lost", "Optuna cannot use the storage",
)  # fmt: skip
AT_ONCE = ("PostgreSQL takes no more connections",)  # passes although we never were connected


class Link(Protocol):
    """A connection of one thread, with what belongs to it."""

    def cut(self) -> None:
        """End the connection from another thread, so that whoever waits for an answer gets an error."""

    def close(self) -> None:
        """Give the connection back."""


L = TypeVar("L", bound=Link)
T = TypeVar("T")


class _Attempt(Generic[L]):
    """One call: its link, which its thread may still be making when nobody waits for it any more."""

    def __init__(self, link: L | None) -> None:
        self.link = link
        self.began = time.monotonic()
        self._given_up = False
        self._lock = threading.Lock()

    def open(self, connect: Callable[[], L]) -> L:
        """The link, made now where there is none; in the call's own thread."""
        link = connect() if self.link is None else self.link
        self.began = time.monotonic()  # connecting has a deadline of its own
        with self._lock:
            self.link = link
            if self._given_up:
                link.cut()
        return link

    def give_up(self) -> None:
        """Cut the link, now or as soon as it is made."""
        with self._lock:
            self._given_up = True
            if self.link is not None:
                self.link.cut()


class Calls(Generic[L]):
    """Repeats calls until they succeed, for a limited time.

    Args:
        connect: Makes a link, within a deadline too.
        times: Deadline of a call and limit of all attempts.
        waiting: Called about five times a second; raises to give up.
        warn: Is told once when a database went away, and once when it is back.
    """

    def __init__(
        self,
        connect: Callable[[], L],
        times: LeaseTimes,
        *,
        waiting: Callable[[str, float], None] = lambda what, seconds: None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._connect = connect
        self._times = times
        self._waiting = waiting
        self._warn = warn
        self._link: L | None = None
        self._connected = False
        self._away = False

    def __call__(self, action: Callable[[L], T]) -> T:
        """Do something with the link.

        Raises:
            EnvironmentProblem: It failed for good, or for longer than the limit.
        """
        from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

        first, longest = BACK_OFF_S
        attempts = Retrying(
            retry=retry_if_exception(self._may_pass),
            stop=stop_after_delay(self._times.limit_s),
            wait=wait_random_exponential(multiplier=first, max=longest),
            sleep=self._pause,
            reraise=True,
        )
        result: T = attempts(self._once, action)
        if self._away:
            self._away = False
            self._warn("the database answers again")
        return result

    def close(self) -> None:
        """Give the link back, within a deadline too."""
        if self._link is not None:
            link, self._link = self._link, None
            with suppress(EnvironmentProblem):  # what was said is committed; only the good-bye is missing
                self._within_deadline(_Attempt(link), lambda link: link.close())
            link.cut()

    def _once(self, action: Callable[[L], T]) -> T:
        from sqlalchemy.exc import SQLAlchemyError

        attempt = _Attempt(self._link)
        try:
            result = self._within_deadline(attempt, action)
        except SQLAlchemyError as error:  # a session that a lost connection left half done
            self._link = None
            attempt.give_up()
            raise EnvironmentProblem(ANSWERLESS, cause=type(error).__name__, code="storage") from error
        except BaseException:
            self._link = None
            attempt.give_up()
            raise
        self._connected, self._link = True, attempt.link
        return result

    def _within_deadline(self, attempt: "_Attempt[L]", action: Callable[[L], T]) -> T:
        answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

        def ask() -> None:
            try:
                answers.put((action(attempt.open(self._connect)), None))
            except BaseException as error:  # handed to who asked
                answers.put((None, error))

        threading.Thread(target=ask, daemon=True, name="database call").start()
        while True:
            try:
                answer, error = answers.get(timeout=LOOK_S)
            except Empty:
                waited = time.monotonic() - attempt.began
                self._waiting("the database", waited)
                if waited > self._times.deadline_s:
                    raise EnvironmentProblem(
                        ANSWERLESS, cause=f"no answer within {self._times.deadline_s:g} s", code="storage"
                    ) from None
                continue
            if error is not None:
                raise error
            return answer  # type: ignore[return-value]  # no error: it is the answer, None included

    def _may_pass(self, error: BaseException) -> bool:
        if not isinstance(error, EnvironmentProblem):
            return False
        passes = error.message in (PASSING if self._connected else AT_ONCE) and not _is_refusal(error)
        if passes and not self._away:
            self._away = True
            self._warn(f"{error.message}; trying again for {self._times.limit_s:g} s")
        return passes

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._waiting("the database", 0.0)
            time.sleep(min(left, LOOK_S))


def _is_refusal(error: BaseException) -> bool:
    """The server answered, and says that what we asked cannot be done."""
    from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, DataError | IntegrityError | ProgrammingError):
            return True
        cause = cause.__cause__
    return False
