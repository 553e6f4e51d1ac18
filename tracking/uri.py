"""Where MLflow keeps its runs, as a URI; and what of a URI others may read."""

import re
from pathlib import Path
from typing import Any

URI_VARIABLE = "ABLATE_TRACKING_URI"  # by which a process of ours is told the store's address
MARK = "***"  # stands where a secret was
_USER = r"[^:/?#@\s\[]*:"
_PASSWORD = r"(?:(?!://)[^@\n])*@(?:[^/?#@\s]*@)*"  # drivers take one with / ? # and spaces, as SQLAlchemy does
_USERINFO = re.compile(
    rf"""\bhttps?://{_USER}(?!\d+(?:[][/?#\s'"),;]|$)){_PASSWORD}"""  # http://host:5000/a@b has a port, no password
    rf"""|\b(?!https?:)[a-z][a-z0-9+.-]*://{_USER}(?!\d+(?:[][?#\s'"),;]|$)){_PASSWORD}"""
    r"|\b[a-z][a-z0-9+.-]*://[^/?#\s]*@",  # a name alone may be a token
    re.IGNORECASE,
)
_QUERY = re.compile(
    r"([?&;][^=&;?\s]*(?:pass|pwd|secret|token|key|credential|signature|\bsig\b|auth)[^=&;?\s]*=)"
    r"""[^&\s]*?(?=['"]*(?:[&\s]|$))""",  # a quote at its end is the word's
    re.IGNORECASE,
)


def default_uri(runs: Path) -> str:
    """`sqlite:///<runs>/mlflow.db`, absolute: a relative one would depend on the current directory."""
    return f"sqlite:///{runs.resolve() / 'mlflow.db'}"


def artifact_folder(runs: Path) -> Path:
    """Where the default store keeps artifacts."""
    return runs.resolve() / "mlflow-artifacts"


def without_password(text: str, mark: str = MARK) -> str:
    """`text` with `mark` for the user, password and secret query values of every URI in it.

    For everything that others may read: files, screens, MLflow. An empty mark also takes the @ away.
    """
    user = f"{mark}@" if mark else ""
    hidden = _USERINFO.sub(lambda found: f"{found[0].partition('://')[0]}://{user}", text)
    return _QUERY.sub(lambda found: found[1] + mark, hidden)


def without_passwords(tree: Any) -> Any:
    """The same for every text within nested dicts and lists."""
    if isinstance(tree, str):
        return without_password(tree)
    if isinstance(tree, dict):
        return {key: without_passwords(value) for key, value in tree.items()}
    return [without_passwords(value) for value in tree] if isinstance(tree, list | tuple) else tree
