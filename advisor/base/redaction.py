"""What may not leave this machine is taken out of texts: home folders, passwords, keys.

For documents made to be given away. A word that merely looks like a secret is lost too, a number never is:
``--token-dim 64`` stays readable.
"""

import re
from collections.abc import Sequence

HIDDEN = "***"

_NAME = r"[\w.-]*(?:token(?!iz)|secret|passw|passphrase|cred|api_?key|[_-]key)[\w.-]*"
_SECRET_NAME = re.compile(rf"-{{0,2}}(?:{_NAME}|key)", re.IGNORECASE)
_ASSIGNED = re.compile(rf"((?<![\w.-])-{{0,2}}{_NAME}\s*[=:]\s*)([^\s&,;'\"]+)", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(\w+://)[^\s/@]+@")
_QUERY_OF_URL = re.compile(r"(\w+://[^\s?#'\"]*)\?[^\s'\"]+")
_NUMBER = re.compile(r"-?\d{0,7}(?:\.\d*)?(?:e-?\d+)?", re.IGNORECASE)


def without_secrets(words: Sequence[str]) -> list[str]:
    """The words of a command as results hold them: the value of what names a secret is hidden, paths stay."""
    kept = []
    for before, word in zip(("", *words), words, strict=False):
        named = before.startswith("-") and _SECRET_NAME.fullmatch(before) is not None
        is_value = named and not word.startswith("-")
        text = _QUERY_OF_URL.sub(rf"\1?{HIDDEN}", _USER_IN_URL.sub(rf"\1{HIDDEN}@", word))
        kept.append(
            _hidden(word) if is_value else _ASSIGNED.sub(lambda found: found[1] + _hidden(found[2]), text)
        )
    return kept


def _hidden(text: str) -> str:
    return text if not text or _NUMBER.fullmatch(text) or text.startswith("sha256:") else HIDDEN
