"""Names that MLflow takes. A name that it refuses, or that stands for another thing there, gets a
readable one."""

import hashlib
import posixpath
import re
from collections.abc import Iterable

from tracking.mlflow.runs import SUMMARIES

LONGEST = 200
"""Characters of a name; MLflow takes 250, and ours stand behind `published/delta/` and the like."""
NAME_OF = "name."  # tags of a run: behind it a name that was changed, with the name of the task as its value
_ALLOWED = re.compile(r"[\w.\- :/]+")
_REFUSED = re.compile(r"[^\w.\- :/]")
_DIGEST_LENGTH = 12
_ENDS_LIKE_OURS = re.compile(rf".*-[0-9a-f]{{{_DIGEST_LENGTH}}}", re.DOTALL)


def legal(name: str) -> str:
    """The name of a metric, parameter or tag in MLflow: itself if MLflow takes it.

    Any other name becomes its readable part and a digest of the whole, such as
    `mAP_0.5-3d9c1f0a7be2`. A name that already ends like that is changed too. So two names never
    become one.
    """
    if _is_taken_by_mlflow(name) and not _ENDS_LIKE_OURS.fullmatch(name):
        return name
    return _with_digest(name)


def legal_curve(name: str) -> str:
    """The name of a reported metric in MLflow: none begins as the numbers of a whole trial do, such
    as `best/`."""
    in_mlflow = legal(name)
    return _with_digest(name).replace("/", "_", 1) if in_mlflow.startswith(SUMMARIES) else in_mlflow


def _with_digest(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST_LENGTH]
    readable = _REFUSED.sub("_", name)[: LONGEST - _DIGEST_LENGTH - 1]
    folders = [part for part in readable.split("/") if part.strip(". ")]
    return f"{'/'.join(folders)}-{digest}"


def changed(names: Iterable[str], curves: Iterable[str]) -> dict[str, str]:
    """The task's names that are others in MLflow, each with its name there. ``curves`` are
    reported."""
    pairs = {name: legal(name) for name in names} | {name: legal_curve(name) for name in curves}
    return {name: in_mlflow for name, in_mlflow in pairs.items() if in_mlflow != name}


def _is_taken_by_mlflow(name: str) -> bool:
    """MLflow takes what could be the path of a file, and only in its shortest form."""
    shortest = posixpath.normpath(name)
    is_plain = name == shortest and not name.startswith(("/", "..")) and name != "."
    return len(name) <= LONGEST and is_plain and _ALLOWED.fullmatch(name) is not None
