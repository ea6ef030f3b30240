"""A changed program run in place of the file that it was made from, which stays as it is.

The program must not be able to tell: its arguments, its path, the folder that it imports from and the lines
that tracebacks show are those of the file.
"""

import os
import tokenize
from pathlib import Path

START = """# runs a changed program in place of the file that it was made from
__file__ = {file!r}


def _program():
    import linecache
    import sys

    with open({content!r}, "rb") as stream:
        program = stream.read()
    if __name__ == "__main__":
        sys.argv[0] = __file__
    sys.path[:] = [{folder!r} if entry == {own!r} else entry for entry in sys.path]
    lines = program.decode({coding!r}).splitlines(keepends=True)
    linecache.cache[__file__] = (len(program), None, lines, __file__)
    return compile(program, __file__, "exec", dont_inherit=True)


exec(_program())
"""


def write_stand_in(file: Path, content: bytes, folder: Path) -> Path:
    """A program that runs ``content`` as if it stood in ``file``.

    Args:
        file: The real path of the program.
        content: What it would hold.
        folder: An empty one, for the program and for ``content``.

    Returns:
        What to run.
    """
    own = folder.resolve()
    kept = own / "content"
    kept.write_bytes(content)
    lines = iter(content.splitlines(keepends=True))
    coding, _ = tokenize.detect_encoding(lambda: next(lines, b""))
    start = START.format(
        file=os.fspath(file),
        content=os.fspath(kept),
        folder=os.fspath(file.parent),
        own=os.fspath(own),
        coding=coding,
    )
    stand_in = own / file.name
    stand_in.write_text(start, encoding="utf-8")
    return stand_in
