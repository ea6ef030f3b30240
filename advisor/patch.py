"""The file ``changes.patch``: what to edit and to set, so far as instructions.

Every line is a comment, so that ``git apply`` finds nothing to do and a shell runs nothing.
"""

import shlex

from advisor.errors import clean
from advisor.result import Adopted, ResultData


def changes_patch(result: ResultData) -> str:
    """One block per change: knob, from, to, the code to write, the environment to set.

    Under ``keep`` it is one line that says there is nothing to change. Ends with a newline; user text
    holds no control characters and cannot start a line of its own.
    """
    changes = result.recommendation.changes
    if result.recommendation.verdict == "keep" or not changes:
        return "# Nothing to change: keep what you have.\n"
    count = "1 change" if len(changes) == 1 else f"{len(changes)} changes"
    lines = [f"{count} for {clean(result.target.path)}, to be made by hand."]
    for change in changes:
        lines += ["", *_block(change)]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _block(change: Adopted) -> list[str]:
    lines = [
        f"knob: {clean(change.knob)}",
        f"from: {clean(str(change.from_))}",
        f"to: {clean(str(change.to))}",
    ]
    if change.snippet:
        lines += ["code:", *(f"    {clean(line)}" for line in change.snippet.splitlines())]
    if change.environment:
        lines += [
            "environment:",
            *(
                f"    export {clean(name)}={shlex.quote(clean(value))}"
                for name, value in change.environment.items()
            ),
        ]
    return lines
