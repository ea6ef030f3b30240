"""What may not leave this machine is taken out of texts: home folders, passwords, keys.

For documents made to be given away. A word that merely looks like a secret is lost too, a number never is:
``--token-dim 64`` stays readable.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HIDDEN = "***"

_NAME = r"[\w.-]*(?:token(?!iz)|secret|passw|passphrase|cred|api_?key|[_-]key)[\w.-]*"
_SECRET_NAME = re.compile(rf"-{{0,2}}(?:{_NAME}|key)", re.IGNORECASE)
_ASSIGNED = re.compile(rf"((?<![\w.-])-{{0,2}}{_NAME}\s*[=:]\s*)([^\s&,;'\"]+)", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(\w+://)[^\s/@]+@")
_QUERY_OF_URL = re.compile(r"(\w+://[^\s?#'\"]*)\?[^\s'\"]+")
_NUMBER = re.compile(r"-?\d{0,7}(?:\.\d*)?(?:e-?\d+)?", re.IGNORECASE)
_ANY_HOME = re.compile(r"(?<![\w./-])/(?:home|Users)/[^/\s:'\",]+")


def redacted(value: Any) -> Any:
    """A JSON value without secrets and home folders; keys, numbers and structure stay."""
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, dict):
        return {redacted_text(name): _named(name, redacted(one)) for name, one in value.items()}
    if isinstance(value, list):
        return list(_arguments(value))
    return value


def redacted_text(text: str) -> str:
    """A text without the values of ``key=value`` that name a secret, users of URLs, and home folders."""
    for home in _homes():
        text = re.sub(rf"(?<![\w./-]){re.escape(home)}(?![\w.-])", "~", text)
    text = _ANY_HOME.sub("~", text)
    text = _QUERY_OF_URL.sub(rf"\1?{HIDDEN}", _USER_IN_URL.sub(rf"\1{HIDDEN}@", text))
    return _ASSIGNED.sub(lambda found: found[1] + _hidden(found[2]), text)


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


def _arguments(values: list[Any]) -> Iterator[Any]:
    """The items of a list; in one of arguments the word behind ``--api-key`` is a secret."""
    before = ""
    for value in values:
        follows_option = before.startswith("-") and _SECRET_NAME.fullmatch(before) is not None
        yield _hidden(value) if follows_option and isinstance(value, str) else redacted(value)
        before = value if isinstance(value, str) else ""


def _named(name: str, value: Any) -> Any:
    secret = isinstance(value, str) and name != "key" and _SECRET_NAME.fullmatch(name) is not None
    return _hidden(value) if secret else value


def _hidden(text: str) -> str:
    return text if not text or _NUMBER.fullmatch(text) or text.startswith("sha256:") else HIDDEN


def _homes() -> list[str]:
    """The home folder as it is called and as it is, the longer first; none for a user without one."""
    try:
        home = Path.home()
    except RuntimeError:
        return []
    return sorted({str(home), os.path.realpath(home)} - {"/"}, key=len, reverse=True)
