"""Files that are replaced as a whole or not at all."""

import os
from pathlib import Path

from advisor.base.fault_points import hit


def write_atomically(path: Path, content: str) -> None:
    """Replace ``path`` by ``content`` so that a reader sees the old or the new file, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        hit("report.rename.before")
        temporary.replace(path)
        hit("report.rename.after")
    finally:
        temporary.unlink(missing_ok=True)
