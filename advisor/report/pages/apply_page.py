"""What ``apply`` says on a terminal: the patch as it could be piped to git, and what measuring it gave."""

from advisor.patching.patch import NOTHING, patch_text
from advisor.result.apply import ApplyData, Verification
from advisor.result.wording import ratio, short_ratio, shown
from advisor.result.words import NUMERICS

KEPT = "\t\r"  # of all control characters: what lines of programs are made of


def render_text(data: ApplyData) -> str:
    """The verification in comments, then the patch; one sentence where a file was put back."""
    if data.status == "reverted":
        return f"{shown(data.file or '')} is as it was before it was patched.\n"
    if data.status == "nothing":
        return NOTHING
    told = f"# {sentence(data.verification)}\n#\n" if data.verification is not None else ""
    text = told + patch_text(data.target.path, data.edited, data.instructions, data.diff)
    return "\n".join(_line(line) for line in text.split("\n"))


def sentence(found: Verification) -> str:
    """What measuring the patched program gave."""
    match found.verdict:
        case "met":
            said = f"The patched program gives {ratio(found.measured, found.gain)}"
        case "missed":
            said = f"The patched program gives less than promised: {ratio(found.measured, found.gain)}"
        case "not_shown":
            said = f"No gain of the patched program could be shown: {ratio(found.measured, found.gain)}"
        case "drifts":
            return f"The numbers of the patched program drift: {shown(found.numerics_reason, 500)}."
        case "failed":
            return f"The patched program fails: {shown(found.why, 500)}."
    promised = f"promised were {short_ratio(found.promised)}" if found.promised is not None else ""
    parts = [said, promised, NUMERICS[found.numerics], shown(found.why, 500)]
    return "; ".join(part for part in parts if part) + "."


def _line(line: str) -> str:
    """A line of a program without what a terminal would obey."""
    if all(c.isprintable() or c in KEPT for c in line):
        return line
    return "".join(
        c if c.isprintable() or c in KEPT else c.encode("unicode_escape").decode("ascii") for c in line
    )
