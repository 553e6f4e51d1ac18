"""Names that MLflow accepts. A name that it refuses, or that means something else there, gets a
readable new one."""

import hashlib
import posixpath
import re
from collections.abc import Collection, Iterable

from tracking.card import COSTS, DEVICE_COSTS
from tracking.mlflow.runs import SUMMARIES

LONGEST = 200
"""Characters of a name. MLflow accepts 250, which also hold prefixes such as `published/delta/`."""
NAME_OF = "name."  # tags of a run: with a changed name; the value is the task's name
_ALLOWED = re.compile(r"[\w.\- :/]+")
_REFUSED = re.compile(r"[^\w.\- :/]")
_DIGEST_LENGTH = 12
_ENDS_LIKE_OURS = re.compile(rf".*-[0-9a-f]{{{_DIGEST_LENGTH}}}", re.DOTALL)


def legal(name: str) -> str:
    """The name of a metric, parameter or tag in MLflow: the name itself if MLflow accepts it.

    Any other name becomes its readable part and a digest of the complete name, such as
    `mAP_0.5-3d9c1f0a7be2`. So does a name that already ends like that: two names never become one.
    """
    if _is_accepted(name) and not _ENDS_LIKE_OURS.fullmatch(name):
        return name
    return _with_digest(name)


def legal_curve(name: str, taken: Collection[str] = ()) -> str:
    """The name of a reported metric in MLflow; none of the ``taken`` names.

    It never begins like the numbers of a trial, such as `best/`, and is never called like one of
    its costs, such as `seconds`.
    """
    name_in_mlflow = legal(name)
    if name_in_mlflow in (*COSTS, *DEVICE_COSTS, *taken):
        return _with_digest(name)
    if name_in_mlflow.startswith(SUMMARIES):
        return _with_digest(name).replace("/", "_", 1)
    return name_in_mlflow


def _with_digest(name: str) -> str:
    encoded = name.encode("utf-8", "backslashreplace")
    digest = hashlib.sha256(encoded).hexdigest()[:_DIGEST_LENGTH]
    readable = _REFUSED.sub("_", name)[: LONGEST - _DIGEST_LENGTH - 1]
    folders = [part for part in readable.split("/") if part.strip(". ")]
    return f"{'/'.join(folders)}-{digest}"


def changed(
    names: Iterable[str], curves: Iterable[str], taken: Collection[str] = ()
) -> dict[str, str]:
    """The task's names that differ in MLflow, each with its name there.

    ``curves`` are reported metrics, which get none of the ``taken`` names.
    """
    pairs = {name: legal(name) for name in names}
    pairs |= {name: legal_curve(name, taken) for name in curves}
    return {name: in_mlflow for name, in_mlflow in pairs.items() if in_mlflow != name}


def _is_accepted(name: str) -> bool:
    """MLflow accepts what could be the relative path of a file in its shortest form."""
    if len(name) > LONGEST or name == "." or name.startswith(("/", "..")):
        return False
    return name == posixpath.normpath(name) and _ALLOWED.fullmatch(name) is not None
