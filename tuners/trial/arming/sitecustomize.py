"""Every Python that a launcher's command starts reads this first; those that train turn to the tuner.

The folder stands on ``PYTHONPATH``, so that launchers, ranks and helpers all come by. A process that is not
the target goes on untouched. The standard library alone is used until the tuner has answered.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

VARIABLE = "ADVISOR_ARMING"  # holds the folder with `WANTED` and `MEETING`
WANTED, MEETING = "wanted.json", "tuner"
DISTANT = "ADVISOR_MEETING"  # where the tuner is met from other machines
CONNECT_S = 10.0
OUR_FOLDER = os.path.dirname(os.path.realpath(__file__))
ANSWER_S = 60.0  # the tuner may be waiting for another rank
LIBRARIES = ("site-packages", "dist-packages")
TOLD = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_MAX_RESTARTS",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
)  # fmt: skip


def hand_over() -> None:
    """Find out what this process is, ask the tuner, and run the target under its hooks if it says so."""
    folder, distant = os.environ.get(VARIABLE), _distant()
    program = _program()
    if (folder or distant) and program is not None:
        here = _wanted_of(folder) if folder else None
        wanted = here or distant.get("wanted")
        if wanted and _is_wanted(wanted, *program):
            connection = _connect(folder) if folder and here else None
            if connection is not None:
                _meet(connection, *program)
            elif distant and not here:
                _meet_from_afar(distant, *program)
    sys.path[:] = [entry for entry in sys.path if not _is_our_folder(entry)]


def let_others() -> None:
    """Run the ``sitecustomize`` that would have been found without us, in our place."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if not _is_our_folder(path)])
    if spec is None or spec.loader is None:
        return
    module = sys.modules["sitecustomize"] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # told as Python tells it, and the program starts all the same
        hint = "Error in sitecustomize; set PYTHONVERBOSE for traceback:"
        sys.stderr.write(f"{hint}\n{type(error).__name__}: {error}\n")


def _program() -> tuple[str, str, str] | None:
    """What Python is about to run: kind, name as given, and file; ``None`` where it is no file of code."""
    first = sys.argv[0] if getattr(sys, "argv", None) else ""
    if first == "-m":
        name = sys.orig_argv[len(sys.orig_argv) - len(sys.argv)]
        name = name[2:] if name.startswith("-m") else name
        return None if name.partition(".")[0] == "advisor" else ("module", name, _module_file(name))
    if first.endswith((".py", ".pyw")):
        return "script", first, os.path.realpath(first)
    return None


def _module_file(name: str) -> str:
    """The file of a module below the working directory, found without importing its packages."""
    base = os.path.join(os.getcwd(), *name.split("."))
    for file in (base + ".py", os.path.join(base, "__main__.py")):
        if os.path.isfile(file):
            return os.path.realpath(file)
    return ""


def _distant() -> dict[str, Any]:
    """Address, token and target of a tuner that measures ranks on several machines; empty without one."""
    text = os.environ.get(DISTANT)
    if not text:
        return {}
    import base64
    import json

    try:
        told = json.loads(base64.urlsafe_b64decode(text))
    except ValueError:  # not ours
        return {}
    return told if isinstance(told, dict) else {}


def _wanted_of(folder: str) -> dict[str, str] | None:
    """What the tuner of this machine looks for; ``None``: it is on another, or waits for nobody any more."""
    import json

    try:
        with open(os.path.join(folder, WANTED)) as stream:
            wanted: dict[str, str] = json.load(stream)
    except (OSError, ValueError):
        return None
    return wanted


def _is_wanted(wanted: dict[str, str], kind: str, name: str, file: str) -> bool:
    if wanted["file"]:
        return bool(file == wanted["file"])
    if wanted["module"]:
        return bool(kind == "module" and name == wanted["module"])
    if wanted["name"]:
        return bool(os.path.basename(file) == wanted["name"])
    return _is_below(file, wanted["under"]) and not _is_library(file, wanted["under"])


def _is_library(file: str, under: str) -> bool:
    prefix = os.path.realpath(sys.prefix)
    own = any(name in file.split(os.sep) for name in LIBRARIES)
    return own or (_is_below(prefix, under) and _is_below(file, prefix))


def _is_below(file: str, folder: str) -> bool:
    return bool(file) and file.startswith(os.path.join(os.path.realpath(folder), ""))


def _connect(folder: str) -> Any:
    import socket

    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(ANSWER_S)
    try:
        connection.connect(os.path.join(folder, MEETING))
    except OSError:  # all ranks have come
        connection.close()
        return None
    return connection


def _meet_from_afar(distant: dict[str, Any], kind: str, name: str, file: str) -> None:
    """Tell a tuner on another machine; what this rank writes for it stays in a folder of its own."""
    import shutil
    import socket
    import tempfile

    host = socket.gethostname() or "another machine"
    try:
        connection = socket.create_connection(tuple(distant["at"]), CONNECT_S)
    except OSError as error:
        at = "{}, port {}".format(*distant["at"])
        sys.stderr.write(f"advisor: {host} does not reach the tuner at {at}: {error}\n")
        if isinstance(error, ConnectionRefusedError):  # all ranks have come
            return
        os._exit(1)
    connection.settimeout(ANSWER_S)
    folder = tempfile.mkdtemp(prefix="advisor-rank-")
    more = {"token": distant["token"], "host": host, "folder": folder}
    is_answered = _meet(connection, kind, name, file, **more)
    shutil.rmtree(folder, ignore_errors=True)
    if not is_answered:  # the tuner has given up, and nobody else ends what runs here
        os._exit(1)


def _meet(connection: Any, kind: str, name: str, file: str, **more: str) -> bool:
    """Tell the tuner who is here; returns where it does not want this process, and whether it said so."""
    import json

    told = {"message": "Hello", "pid": os.getpid(), "kind": kind, "name": name, "file": file, **more}
    told.update(args=sys.argv[1:], cwd=os.getcwd(), variables={key: os.environ.get(key) for key in TOLD})
    line = b""
    try:
        connection.sendall(json.dumps(told).encode() + b"\n")
        while not line.endswith(b"\n"):  # one at a time: what follows the line is the trial's
            part = connection.recv(1)
            if not part:
                break
            line += part
        answer = json.loads(line or b"{}")
    except (OSError, ValueError):
        answer = {}
    if answer.get("message") == "Arm":
        _take_over(connection, answer, **more)
    connection.close()
    return bool(answer)


def _take_over(
    connection: Any, answer: dict[str, Any], host: str = "", folder: str = "", token: str = ""
) -> None:
    """Run the target as a trial; ``host`` names this machine where it is not the tuner's. Never returns."""
    import time

    started = time.perf_counter() - answer["age_s"]
    connection.settimeout(None)
    missing = [name for name, value in answer["environment"].items() if os.environ.get(name) != value]
    if missing:
        message = f"the launcher does not hand on {', '.join(missing)} to {host}"
        _complain(connection, message, folder, "not_applied")
    _leave_no_trace()
    try:
        from importlib.util import find_spec

        if find_spec("advisor") is None:
            sys.path.extend(answer["paths"])
        from advisor.profiles.hooks.surroundings import program
        from advisor.tuners.trial.spec import TrialSpec
        from advisor.tuners.trial.trial import serve

        program.forget_our_folder()
        spec = TrialSpec.of(answer["spec"])
        if host:
            from advisor.tuners.trial.caretaker import attend

            attend(connection, spec)
    except BaseException as error:  # another Python may lack what we need
        _complain(
            connection, f"{sys.executable} cannot load advisor: {type(error).__name__}: {error}", folder
        )
    try:
        serve(spec, connection, started)
    finally:
        import traceback

        traceback.print_exc()
        os._exit(1)


def _leave_no_trace() -> None:
    """As if Python had come this far without us: nothing of ours for children, nothing half imported."""
    import site

    for name in (VARIABLE, DISTANT):
        os.environ.pop(name, None)
    kept = [
        entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if not _is_our_folder(entry)
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    if not os.environ["PYTHONPATH"]:
        del os.environ["PYTHONPATH"]
    if site.ENABLE_USER_SITE:
        site.execusercustomize()
    for name in (
        "site",
        "sitecustomize",
    ):  # threads that import them must not wait for the end of the program
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if spec is not None:
            spec._initializing = False
    sys.path[:] = [entry for entry in sys.path if not _is_our_folder(entry)]
    if not sys.flags.safe_path:
        sys.path.insert(0, OUR_FOLDER)  # in the place of the one that `forget_our_folder` takes away


def _complain(connection: Any, message: str, folder: str, cause: str = "environment") -> NoReturn:
    """Say that this trial cannot be, and end."""
    import json
    import shutil

    failed = {"message": "Failed", "failure": {"cause": cause, "message": message}}
    if folder:  # first: who hears it may end us
        shutil.rmtree(folder, ignore_errors=True)
    connection.sendall(json.dumps(failed).encode() + b"\n")
    os._exit(1)


def _is_our_folder(entry: str) -> bool:
    return bool(entry) and os.path.realpath(entry) == OUR_FOLDER


if __name__ == "sitecustomize":  # found by Python at its start, not imported as a part of the package
    let_others()
    hand_over()
