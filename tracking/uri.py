"""The URI of MLflow's store, and texts without their secrets: in URIs, and behind names such as
``api_key``."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

URI_VARIABLE = "ALLELSE_TRACKING_URI"  # passes the store's address to our processes
HERE = "<paths.runs>/mlflow.db"  # how the files of a study name the default store, which may be moved with them
MASK = "***"  # replaces a secret
_WORD_ENDS = (
    r"""(?:\s|\Z|['"](?:[\s,;:)\]}]|\Z))"""  # a quote inside a word may belong to a password
)
_NO_AT = rf"(?:(?!{_WORD_ENDS})[^@])*"
_PASSWORD = r"(?:(?!://)[^@\n])*@(?:[^/?#@\s]*@)*"  # drivers take one with / ? # and spaces, as SQLAlchemy does
_USERINFO = re.compile(  # digits are a port only where no @ follows in the same word
    rf"""(?:(?<=\bhttp)|(?<=\bhttps))://[^:/?#\s\[]*:(?!\d+(?:[][/?#'"),;]{_NO_AT})?{_WORD_ENDS}){_PASSWORD}"""
    rf"""|(?<!\bhttp)(?<!\bhttps)(?<=\w)://(?!{re.escape(MASK)}@)[^:/\s\[]*:"""
    rf"""(?!\d+(?:[][?#'"),;]{_NO_AT})?{_WORD_ENDS}){_PASSWORD}"""
    r"|(?<=\w)://[^/?#\s]*@",  # a name alone may be a token
    re.IGNORECASE,
)
_SECRET = r"(?:pass|pwd|secret|token|key|credential|signature|\bsig\b|auth)"
_VALUE = r"(?:\{[^}\n]*\}|[^&\s])"  # ODBC takes spaces and & in braces
_VALUE_ENDS = r"""(?=(?:['"][]'"),;:}]*)?(?:[&\s]|$))"""  # a quote at its end belongs to the word
_QUERY = re.compile(  # a view of MLflow's pages is no secret
    rf"([?&;#](?!viewStateShareKey=)(?:[^=&;?\s]*{_SECRET}[^=&;?\s]*|odbc_connect)=){_VALUE}*?{_VALUE_ENDS}",
    re.IGNORECASE,
)
_ENCODED = re.compile(  # a whole address or a list of settings within one value, encoded once or more
    rf"([?&;#][^=&;?\s]+=)(?=[^&\s]*?(?:{_SECRET}\w*%(?:25)*3[AD]|%(?:25)*3A(?:%(?:25)*2F){{2}}[^&\s]*%(?:25)*40))"
    rf"{_VALUE}*?{_VALUE_ENDS}",
    re.IGNORECASE,
)
_ENDINGS = r"(?:password|secret|token|api_key)"
_IS_SECRET = re.compile(rf".*{_ENDINGS}", re.IGNORECASE | re.DOTALL)
_NAME = (  # NAME = value, NAME: value, "NAME": "value", x["NAME"] = value, NAME: type = value
    rf"""(?<![\w.-])[\w.-]*{_ENDINGS}(?:\\?["'])?\]?(?:[ \t]*:[ \t]*[\w.\[\]| ]+?)?[ \t]*(?:=(?!=)|:(?![:/]))[ \t]*"""
)
_TEXT = r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
_NAMED = re.compile(
    rf"""({_NAME})(?!(?:None|null|True|true|False|false|\*\*\*)\b)({_TEXT}|[^\s,;)\]}}&"'*][^\s,;)\]}}&"']*)""",
    re.IGNORECASE,
)
_LITERAL = re.compile(
    rf"({_NAME}[\w.(\[]*)({_TEXT})", re.IGNORECASE
)  # in Python, also as an argument of a call
_OF_FILE = re.compile(r"(?m)^(?=diff --git )")
SHORTEST = 8
"""Characters of an environment's secret that is searched for in texts: shorter ones are words."""


def default_uri(runs: Path) -> str:
    """`sqlite:///<runs>/mlflow.db`, absolute: a relative one would depend on the current
    directory."""
    return f"sqlite:///{runs.resolve() / 'mlflow.db'}"


def store_name(uri: str, runs: Path) -> str:
    """How the files of a study below ``runs`` name the store at this address: without a
    password."""
    return HERE if uri == default_uri(runs) else without_password(uri, mark="")


def artifact_folder(runs: Path) -> Path:
    """The folder of the default store's artifacts."""
    return runs.resolve() / "mlflow-artifacts"


def without_password(text: str, mark: str = MASK, named: re.Pattern[str] = _NAMED) -> str:
    """`text` with `mark` for the user, password and secret query values of every URI in it, and for
    secrets.

    These stand behind a name that ends in password, secret, token or api_key, or in the environment
    under such a name.

    For every text that others may read: files, screens, MLflow. An empty mark also removes the @.
    """
    user = f"{mark}@" if mark else ""
    for pattern, shown in (
        (_USERINFO, f"://{user}"),
        (_ENCODED, rf"\1{mark}"),
        (_QUERY, rf"\1{mark}"),
    ):
        text = pattern.sub(shown, text)
    text = named.sub(lambda found: f"{found[1]}{_quoted(found[2], mark)}", text)
    for value in _secrets_of_environment():
        text = text.replace(value, mark)
    return text


def code_without_secrets(text: str) -> str:
    """The same for Python: `token = tokens[i]` holds no secret, only text in quotes may be one."""
    return without_password(text, named=_LITERAL)


def diff_without_secrets(diff: str) -> str:
    """The same for what `git diff` prints, by the kind of each file."""
    parts = [(part, part.partition("\n")[0].endswith(".py")) for part in _OF_FILE.split(diff)]
    return "".join(
        (code_without_secrets if python else without_password)(part) for part, python in parts
    )


def shown_words(words: Iterable[str]) -> list[str]:
    """The words of a command line without secrets: of KEY=VALUE all of the value, whatever is in
    it."""
    split = [(word, *word.partition("=")) for word in words]
    return [
        f"{key}={MASK}" if mark and is_secret(key) else without_password(word)
        for word, key, mark, _ in split
    ]


def shown_tree(tree: Any) -> Any:
    """``without_passwords`` for a reader: the whole value of a key that names a secret is
    hidden."""
    return without_passwords(tree, is_secret)


def _quoted(value: str, mark: str) -> str:
    """The mark in the quotes of the value, so that JSON stays JSON."""
    quote = value[0] if value[0] in "\"'" else ""
    return f"{quote}{mark}{quote}"


def is_secret(name: str) -> bool:
    """Whether values of this name are shown to nobody."""
    return _IS_SECRET.fullmatch(name) is not None


def _secrets_of_environment() -> list[str]:
    return [
        value for name, value in os.environ.items() if len(value) >= SHORTEST and is_secret(name)
    ]


def without_passwords(tree: Any, hidden: Callable[[str], bool] = lambda key: False) -> Any:
    """The same for every text within nested dicts and lists. The values of ``hidden`` keys are left
    out whole."""
    if isinstance(tree, str):
        return without_password(tree)
    if isinstance(tree, dict):
        return {
            key: MASK if of and hidden(str(key)) else without_passwords(of, hidden)
            for key, of in tree.items()
        }
    return (
        [without_passwords(value, hidden) for value in tree]
        if isinstance(tree, list | tuple)
        else tree
    )
