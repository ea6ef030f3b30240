"""What is said while a trial comes to be: to the warm process that forks it, or by a launcher's command."""

from advisor.tuners.trial.messages import Message
from advisor.tuners.trial.spec import Target

# Between the tuner and the warm process that trials are forked from


class Load(Message, frozen=True):
    """Import torch and the target; answered by ``Loaded`` or ``Failed``."""

    target: Target


class Loaded(Message, frozen=True):
    """It is there, in the process ``pid``; ``why_not`` it cannot be forked, ``None`` where it can."""

    pid: int
    why_not: str | None


class Fork(Message, frozen=True):
    """Fork a trial; ``spec`` is the file that tells it what to do. Three descriptors come with it."""

    spec: str


# Between the tuner and the processes of a launcher's command (``arming/sitecustomize.py``)


class Hello(Message, frozen=True):
    """A process that may be the target has come: what it runs, and its environment's word on ranks.

    ``name`` is as it was given, ``file`` the absolute path, empty where a module has none below ``cwd``.
    One on another machine also tells its ``token``, the name of its ``host``, and a ``folder`` of its own.
    """

    pid: int
    kind: str
    name: str
    file: str
    args: tuple[str, ...]
    cwd: str
    variables: dict[str, str | None]
    token: str = ""
    host: str = ""
    folder: str = ""


class Arm(Message, frozen=True):
    """Be the trial of the text ``spec``; the command is ``age_s`` old, ``paths`` are where advisor is.

    ``environment`` is what the settings ask of it: a launcher may not hand it on to another machine.
    """

    spec: str
    age_s: float
    paths: tuple[str, ...]
    environment: dict[str, str]


class Leave(Message, frozen=True):
    """Go on untouched."""
