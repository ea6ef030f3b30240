"""Temporary folders of runs: a run that is killed cannot remove its own, so the next one does.

A folder is locked for as long as its run lives. It gets its name once it is locked, so that none is taken for
left behind before that.
"""

import fcntl
import os
import stat
import tempfile
from contextlib import ExitStack
from pathlib import Path

from advisor.tuners.supervision.isolation import remove

PREFIX, NEW = "advisor-scratch-", "advisor-new-"


def make_scratch(stack: ExitStack) -> Path:
    """A private folder outside the project, removed by ``stack``; those of killed runs are removed now."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_if_left(left)
    new = Path(tempfile.mkdtemp(prefix=NEW))
    descriptor = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
    stack.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    scratch = new.with_name(PREFIX + new.name.removeprefix(NEW))
    new.rename(scratch)
    stack.callback(remove, scratch)
    return scratch


def _remove_if_left(folder: Path) -> None:
    """Remove a folder of ours whose run is gone; whatever else has that name stays."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # a link, a file, another user's, or just removed
        return
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(folder)
    except OSError:  # its run lives, or another one removes it too
        return
    finally:
        os.close(descriptor)
