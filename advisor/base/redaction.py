"""What may not leave this machine is taken out of texts: home folders, passwords, keys.

For documents made to be given away. A word that merely looks like a secret is lost too, a number never is:
``--token-dim 64`` stays readable.
"""

import re
from collections.abc import Sequence

HIDDEN = "***"
POSTGRES_KEYS = (  # in a URL of PostgreSQL: where and how to connect, none of them a secret
    "application_name", "channel_binding", "connect_timeout", "gssencmode", "host", "keepalives",
    "keepalives_count", "keepalives_idle", "keepalives_interval", "passfile", "port", "sslcert", "sslcrl",
    "sslkey", "sslmode", "sslrootcert", "target_session_attrs", "tcp_user_timeout",
)  # fmt: skip

_NAME = r"[\w.-]*(?:token(?!iz)|secret|passw|passphrase|cred|api_?key|[_-]key)[\w.-]*"
_SECRET_NAME = re.compile(rf"-{{0,2}}(?:{_NAME}|key)", re.IGNORECASE)
_ASSIGNED = re.compile(rf"((?<![\w.-])-{{0,2}}{_NAME}\s*[=:]\s*)([^\s&,;'\"]+)", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(\w+://)[^\s/@]+@")
_POSTGRESQL = re.compile(r"(postgresql(?:\+\w+)?://)(?:([^\s:/@?]*)(:\S*)?@)?([^\s@?]*)(?:\?([^\s'\"]*))?")
_QUERY_OF_URL = re.compile(r"(\w+://[^\s?#'\"]*)\?[^\s'\"]+")
_NUMBER = re.compile(r"-?\d{0,7}(?:\.\d*)?(?:e-?\d+)?", re.IGNORECASE)


def without_secrets(words: Sequence[str]) -> list[str]:
    """The words of a command as results hold them: the value of what names a secret is hidden, paths stay."""
    kept = []
    for before, word in zip(("", *words), words, strict=False):
        named = before.startswith("-") and _SECRET_NAME.fullmatch(before) is not None
        is_value = named and not word.startswith("-")
        text = _url(word)
        kept.append(
            _hidden(word) if is_value else _ASSIGNED.sub(lambda found: found[1] + _hidden(found[2]), text)
        )
    return kept


def pasted(word: str) -> str:
    """A word of a command without the place of a hidden password: PostgreSQL then takes it from elsewhere."""
    return word.replace(f":{HIDDEN}@", "@") if _POSTGRESQL.search(word) else word


def _url(word: str) -> str:
    """Without what a URL may hide: its user and its query, but for those by which a database is found."""
    if _POSTGRESQL.search(word):
        return _POSTGRESQL.sub(_database, word)
    return _QUERY_OF_URL.sub(rf"\1?{HIDDEN}", _USER_IN_URL.sub(rf"\1{HIDDEN}@", word))


def _database(found: re.Match[str]) -> str:
    scheme, user, password, place, query = found.groups()
    secret = "" if password in (None, ":") else f":{HIDDEN}"
    who = "" if user is None else f"{user}{secret}@"
    pairs = [each if each.partition("=")[0] in POSTGRES_KEYS else HIDDEN for each in (query or "").split("&")]
    return f"{scheme}{who}{place}" + (f"?{'&'.join(dict.fromkeys(pairs))}" if query else "")


def _hidden(text: str) -> str:
    return text if not text or _NUMBER.fullmatch(text) or text.startswith("sha256:") else HIDDEN
