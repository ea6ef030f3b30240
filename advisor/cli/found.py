"""Results by the name that a user gives: a file, the folder of a report, or a study."""

import os
import re
from pathlib import Path

from advisor.base.errors import UsageError, clean
from advisor.cli.output import warn
from advisor.cli.stored import parse_given
from advisor.cli.values import did_you_mean
from advisor.result.document import ProfileData, ResultData
from advisor.result.reading import read_document
from advisor.storage.contract import check_study_name

COMPRESSED = b"\x1f\x8b"  # how gzip begins
MOST_BEFORE_EVENTS = 1 << 20  # bytes of a trace that stand before its events, such as devices and settings


def find_result(name: str, storage: str | None) -> ResultData | ProfileData:
    """The result in a file, a folder or a study.

    Args:
        name: A path, or the name of a study.
        storage: Where studies are stored, if the user said so; then a plain name is that of a study.

    Raises:
        UsageError: There is none, or it is not a result.
        NoValidTrial: The study has measured nothing yet.
        EnvironmentProblem: The storage cannot be read.
    """
    is_path = os.sep in name or "\0" in name
    is_json = name.endswith(".json") and (storage is None or os.path.lexists(name))
    if is_path or is_json or (storage is None and os.path.lexists(name)):
        return read_result_file(name)
    url = parse_given(storage)
    if storage is None and url.path is not None and not url.path.exists():
        raise UsageError(f"{clean(name)}: no such file or study", hint="`advisor tune TARGET` writes one")
    from advisor.storage.store import Store

    check_study_name(name)
    with Store.open(url, create=False, warn=warn) as store:
        return store.require_result(name)


def read_result_file(name: str) -> ResultData | ProfileData:
    """The result in a file, or in the folder of a report.

    Raises:
        UsageError: There is none, or it is not a result.
    """
    shown = clean(name)
    if not name.strip() or "\0" in name:
        raise UsageError(f"{shown}: no such file" if name.strip() else "the name of a result is empty")
    try:
        if not os.path.lexists(name) and (near := _nearest(name)) is not None:
            raise UsageError(f"{shown}: no such file", hint=near)
        return read_document(Path(name))
    except OSError as error:  # a name that is too long, a loop of links
        reason = clean(os.strerror(error.errno or 0)).lower()
        raise UsageError(f"cannot read {shown}", cause=reason) from None
    except RecursionError:
        raise UsageError(f"{shown} is not a result of advisor", cause="it is nested too deeply") from None


def holds_trace(name: str) -> bool:
    """Whether a file holds a trace: compressed, a bare list of events, or an object with ``traceEvents``."""
    try:
        with Path(name).open("rb") as file:
            head = file.read(MOST_BEFORE_EVENTS)
    except (OSError, ValueError):
        return False
    events = re.match(rb"(\xef\xbb\xbf)?\s*\[\s*\{", head) or re.search(rb'"traceEvents"\s*:\s*\[', head)
    return head.startswith(COMPRESSED) or events is not None


def _nearest(name: str) -> str | None:
    """The hint that names the result beside it that is spelt most like it."""
    folder, last = os.path.split(name.rstrip(os.sep))
    known = [
        entry.name
        for entry in (os.scandir(folder or ".") if os.path.isdir(folder or ".") else ())
        if entry.name.endswith(".json") or os.path.isfile(os.path.join(entry.path, "result.json"))
    ]
    hint = did_you_mean(last, known)
    return clean(hint.replace("did you mean ", f"did you mean {os.path.join(folder, '')}")) if hint else None
