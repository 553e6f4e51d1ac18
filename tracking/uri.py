"""The URI of MLflow's store, and texts without their secrets.

A secret is a user or a password in a URI, a value of its query, or the value of a name such as
``api_key``.
"""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

URI_VARIABLE = "ALLELSE_TRACKING_URI"  # passes the store's address to our processes
HERE = "<paths.runs>/mlflow.db"  # the default store in a study's files, which may move with it
MASK = "***"  # replaces a secret
SHORTEST = 8
"""Characters of an environment's secret that is searched for in texts: shorter ones are words."""
SECRET_ENDINGS = ("password", "secret", "token", "api_key")
"""The endings of names whose values are secret, in any case."""
PUBLIC_SETTING = "viewStateShareKey"
"""A view of MLflow's pages, which is no secret in spite of its name."""
_SECRET_SETTING = re.compile(
    r"pass|pwd|secret|token|key|credential|signature|\bsig\b|auth", re.IGNORECASE
)
_DECODED_SECRET = re.compile(rf"(?is)(?:{_SECRET_SETTING.pattern})\w*[:=]|://.*@")
"""A secret setting, or an address with a user."""
_ADDRESS = re.compile(r"(\w+)://(?=([^\n]*))")
"""The scheme of a URI, and the rest of its line."""
_SETTING = re.compile(r"[?&;#]([^=&;?\s]+)=")
"""The key of a query, up to its value."""
_QUERY_VALUE = re.compile(r"[^&\s]*")
_SETTING_END = re.compile(r"""(?:['"][]'"),;:}]*)?(?:[&\s]|$)""")
"""The end of a query's value: a quote before it belongs to the text around it."""
_BRACES = re.compile(r"\{[^}\n]*\}")
_WORD_END = re.compile(r"""\s|\Z|['"](?=[\s,;:)\]}]|\Z)""")
"""The end of a word in a text: a quote inside a word may belong to a password."""
_COUNTED = r"""
    (?<=token)(?:\\?["'])?\]?[ \t]*[:=][ \t]*
    [-+]?\d{1,7}(?:\.\d*)?(?:e[-+]?\d+)?(?=[\s,;)\]}]|\Z)
"""
"""After a token that is a piece of text, such as ``loss per token: 2.3``: no secret is so short a
number."""
_NAME = rf"""
    (?<![\w.-])[\w.-]*(?:{"|".join(SECRET_ENDINGS)})(?!{_COUNTED})
    (?:\\?["'])?\]?                    # the quote and the bracket of "NAME" or x["NAME"]
    (?:[ \t]*:[ \t]*[\w.\[\]| ]+?)?    # the type of NAME: type = value
    [ \t]*(?:=(?!=)|:(?![:/]))[ \t]*   # neither ==, nor :: or ://
"""
_QUOTED = r""" "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' """
_ASSIGNMENT = re.compile(
    rf"""({_NAME})
    (?!(?:None|null|True|true|False|false|\*\*\*)\b)
    ({_QUOTED}|[^\s,;)\]}}&"'*][^\s,;)\]}}&"']*)""",
    re.IGNORECASE | re.VERBOSE,
)
"""The name of a secret with its value."""
_CODE_ASSIGNMENT = re.compile(rf"({_NAME}[\w.(\[]*)({_QUOTED})", re.IGNORECASE | re.VERBOSE)
"""The same in Python: only text in quotes, also as an argument of a call."""


def default_uri(runs: Path) -> str:
    """`sqlite:///<runs>/mlflow.db`, absolute, so that it works in any directory."""
    return f"sqlite:///{runs.resolve() / 'mlflow.db'}"


def store_name(uri: str, runs: Path) -> str:
    """The store's name in the files of a study below ``runs``: its address without a password."""
    return HERE if uri == default_uri(runs) else without_password(uri, mark="")


def artifact_folder(runs: Path) -> Path:
    """The folder of the default store's artifacts."""
    return runs.resolve() / "mlflow-artifacts"


def without_password(text: str, mark: str = MASK, assignment: re.Pattern[str] = _ASSIGNMENT) -> str:
    """`text` with `mark` instead of its secrets, also those of the environment. Use it for every
    text that others may read: files, screens, MLflow.

    An empty mark also removes the @ of a URI.
    """
    text = _without_users(text, f"{mark}@" if mark else "")
    text = _without_secret_settings(text, mark)
    text = assignment.sub(lambda match: match[1] + _with_quotes_of(match[2], mark), text)
    for value in _secrets_of_environment():
        text = text.replace(value, mark)
    return text


def code_without_secrets(text: str) -> str:
    """The same for Python: `token = tokens[i]` holds no secret, only text in quotes may be one."""
    return without_password(text, assignment=_CODE_ASSIGNMENT)


def diff_without_secrets(diff: str) -> str:
    """The same for the output of `git diff`, by the type of each file."""
    parts = []
    for part in re.split(r"(?m)^(?=diff --git )", diff):
        is_python = part.partition("\n")[0].endswith(".py")
        parts.append(code_without_secrets(part) if is_python else without_password(part))
    return "".join(parts)


def shown_words(words: Iterable[str]) -> list[str]:
    """The words of a command line without secrets. If the KEY of KEY=VALUE is secret, the complete
    value is hidden."""
    safe_words = []
    for word in words:
        key, separator, _ = word.partition("=")
        if separator and is_secret(key):
            safe_words.append(f"{key}={MASK}")
        else:
            safe_words.append(without_password(word))
    return safe_words


def shown_tree(tree: Any) -> Any:
    """``without_passwords`` for a reader: hides the complete value of a key that names a secret."""
    return without_passwords(tree, is_secret)


def without_passwords(tree: Any, is_hidden: Callable[[str], bool] = lambda key: False) -> Any:
    """``without_password`` for every text in nested dicts and lists. ``is_hidden`` decides by key
    whether to hide a value completely."""
    if isinstance(tree, str):
        return without_password(tree)
    if isinstance(tree, list | tuple):
        return [without_passwords(value, is_hidden) for value in tree]
    if not isinstance(tree, dict):
        return tree
    safe_tree = {}
    for key, value in tree.items():
        if value and is_hidden(str(key)):
            safe_tree[key] = MASK
        else:
            safe_tree[key] = without_passwords(value, is_hidden)
    return safe_tree


def is_secret(name: str) -> bool:
    """Whether values of this name must be hidden."""
    return name.lower().replace("-", "_").endswith(SECRET_ENDINGS)


def _secrets_of_environment() -> list[str]:
    secrets = [value for name, value in os.environ.items() if is_secret(name)]
    return [value for value in secrets if len(value) >= SHORTEST]


def _with_quotes_of(value: str, mark: str) -> str:
    """The mark in the quotes of the value, so that JSON stays JSON."""
    quote = value[0] if value[0] in "\"'" else ""
    return f"{quote}{mark}{quote}"


def _without_users(text: str, mark: str) -> str:
    """The text with ``mark`` instead of the user and the password of each URI."""
    parts = []
    copied = 0
    for match in _ADDRESS.finditer(text):
        length = _user_length(match[1].lower(), match[2])
        # a URI within the password of the last one is masked already
        if length and match.start() >= copied:
            parts += [text[copied : match.end()], mark]
            copied = match.end() + length
    return "".join([*parts, text[copied:]])


def _user_length(scheme: str, address: str) -> int:
    """The length of USER:PASSWORD@ at the beginning of what follows ``://``; 0 without a user.

    Drivers accept passwords with / ? # and spaces, as SQLAlchemy does.
    """
    is_web = scheme in ("http", "https")
    user, colon, password = address.partition(":")
    user_ends = re.search(r"[/?#\s\[]" if is_web else r"[/\s\[]", user)
    is_masked = not is_web and address.startswith(f"{MASK}@")
    if not colon or user_ends or is_masked or _is_port(password, is_web):
        return _bare_user_length(address)
    password = password.partition("://")[0]
    if "@" not in password:
        return _bare_user_length(address)
    length = len(user) + 1 + password.index("@") + 1
    return length + _bare_user_length(address[length:])


def _bare_user_length(address: str) -> int:
    """The length up to the last @ before / ? # or a space: a bare user name may be a token."""
    authority = re.split(r"[/?#\s]", address, maxsplit=1)[0]
    return authority.rfind("@") + 1


def _is_port(text: str, is_web: bool) -> bool:
    """Whether the text begins with a port: digits, and no @ in the rest of the word.

    Only on the web, a path may follow: a driver's password may contain a slash.
    """
    path = text.lstrip("0123456789")
    if path == text:
        return False
    end = _WORD_END.search(path)
    word = path[: end.start()] if end else path
    follows_port = "[]?#'\"),;/" if is_web else "[]?#'\"),;"
    return not word or (word[0] in follows_port and "@" not in word)


def _without_secret_settings(text: str, mark: str) -> str:
    """The text with ``mark`` instead of each secret value in the query of a URI."""
    parts = []
    copied = 0
    match = _SETTING.search(text)
    while match:
        position = match.end()
        if _is_secret_setting(match[1]) or _encodes_secret(text, position):
            parts += [text[copied:position], mark]
            position = _setting_end(text, position)
            copied = position
        match = _SETTING.search(text, position)
    return "".join([*parts, text[copied:]])


def _is_secret_setting(key: str) -> bool:
    if key.lower() == PUBLIC_SETTING.lower():
        return False
    name = key.lower().rpartition("#")[2]
    return name == "odbc_connect" or _SECRET_SETTING.search(key) is not None


def _encodes_secret(text: str, position: int) -> bool:
    """Whether the value at this position is an address with a user, or a list of settings with a
    secret, encoded once or more."""
    value = _QUERY_VALUE.match(text, position)
    encoded = re.sub("[:=@]", " ", value[0]) if value else ""  # only encoded ones count
    decoded = unquote(encoded)
    while decoded != encoded:
        encoded = decoded
        decoded = unquote(encoded)
    return _DECODED_SECRET.search(decoded) is not None


def _setting_end(text: str, position: int) -> int:
    """Where the value at this position ends. ODBC accepts spaces and & within braces."""
    while not _SETTING_END.match(text, position):
        braces = _BRACES.match(text, position)
        position = braces.end() if braces else position + 1
    return position
