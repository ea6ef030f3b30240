"""What another form of a model is made of, and what comes of it."""

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Config, Inputs, Request
from advisor.tuners.knob import Refused

if TYPE_CHECKING:
    from torch.nn import Module

MOST_SHOWN = 200  # characters of a message
STYLE = re.compile(r"\x1b\[[0-9;]*m")  # of terminals, in which some messages are coloured
MOST_CALLS = 256  # to calibrate with: ranges of activations need no more

FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)
"""What exporting and quantising raise for a model that they cannot take; its own code runs inside them."""


@dataclass(frozen=True)
class Threads:
    """Of a runtime with a pool of its own.

    Attributes:
        count: 0 for as many as torch has.
        spinning: They wait for the next request without giving their CPUs away.
    """

    count: int = 0
    spinning: bool = False

    @classmethod
    def of(cls, config: Config) -> "Threads":
        """What the knobs `intra_op_num_threads` and `allow_spinning` say."""
        return cls(int(config.get("intra_op_num_threads", 0)), config.get("allow_spinning") == "on")

    @property
    def number(self) -> int:
        """How many there are."""
        import torch

        return self.count or torch.get_num_threads()


@dataclass(frozen=True)
class Source:
    """A model as it is.

    Attributes:
        root: In evaluation mode.
        example: One call of it.
        folder: Exists; a form leaves its file here.
        calibration: Calls on which nothing is judged.
        dynamic: Which sizes vary, as ``torch.export`` takes it; ``None`` to learn it from the calibration.
        forward: What its class defines as such, where the class is watched.
        threads: Of the runtime that is to run it.
    """

    root: "Module"
    example: Inputs
    folder: Path
    calibration: Sequence[Inputs] = ()
    dynamic: Any = None
    forward: Callable[..., Any] | None = None
    threads: Threads = Threads()

    @classmethod
    def of(
        cls, root: "Module", request: Request, function: Callable[..., Any], threads: Threads = Threads()
    ) -> "Source":
        """A model as it meets its first request, which ``function`` would answer.

        Raises:
            Refused: It is TorchScript, which nothing exports or quantises.
        """
        import torch

        if isinstance(root, torch.jit.ScriptModule):
            raise Refused("the model is TorchScript: forms are made of the module that it was made from")
        calls = tuple(islice(request.calibration(), MOST_CALLS))
        own = getattr(function, "_torchdynamo_orig_callable", function)  # of one that is compiled
        if not hasattr(own, "__self__"):  # torch.compile puts a function around those of torch's own classes
            own = getattr(own, "__wrapped__", own)
        forward = getattr(own, "__func__", None) if getattr(own, "__self__", None) is root else None
        return cls(
            root, (request.args, request.kwargs), request.folder, calls, request.dynamic, forward, threads
        )

    def answer(self, *args: Any, **kwargs: Any) -> Any:
        """What the model as it is returns, without its hooks."""
        return type(self.root).forward(self.root, *args, **kwargs)

    def compiled(self, copied: "Module") -> Callable[..., Any]:
        """A copy that is compiled at its first call, by ``forward`` where the class is watched."""
        import torch

        called = copied if self.forward is None else MethodType(self.forward, copied)
        compiled: Callable[..., Any] = torch.compile(called)
        return compiled

    def copied(self) -> "Module":
        """A copy that may be changed, in evaluation mode.

        Raises:
            Refused: The model has hooks, which are called around whatever answers in its place.
        """
        if self.root._forward_hooks or self.root._forward_pre_hooks:
            raise Refused("the model has forward hooks of its own, which would be called twice")
        return copy.deepcopy(self.root).eval()


@dataclass(frozen=True)
class Form:
    """Another form of a model.

    Attributes:
        call: Takes what the model takes, and returns what it returns.
        file: Holds the form; ``None`` where nothing can be saved.
        loading: Lines of Python that load ``file`` from its folder and call it.
        kind: Of the file, as ``advisor/result/artefact.py`` lists them.
        packages: That made it, besides torch.
        reference: The same quantised weights multiplied in floating point; ``None`` where there is none.
    """

    call: Callable[..., Any]
    file: Path | None
    loading: str
    kind: str
    packages: tuple[str, ...] = ()
    reference: Callable[..., Any] | None = None


def first_line(error: BaseException) -> str:
    """Of a message, for a sentence: that of what caused the error, where that is known."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = STYLE.sub("", str(error)).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].strip()[:MOST_SHOWN]}" if lines else type(error).__name__
