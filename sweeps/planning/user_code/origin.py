"""Where the code of a sweep comes from: its commit, and the diff that is not committed."""

import sys
from hashlib import sha256
from pathlib import Path

from sweeps.config.tasks import TaskSource, reference_of
from sweeps.worker.user_code.folder import ready_code
from tracking.code import CODE_FOLDER, FILE_DIGITS, Code
from tracking.files import write_atomic
from tracking.provenance import OUR_CODE, ROOT, Provenance, of_sweep


def origin_of(source: TaskSource, code: Code | None) -> Provenance:
    """Where the code comes from at this moment: commit, branch and the uncommitted diff as
    ``diff``."""
    if code is None:
        return of_sweep(ROOT, OUR_CODE)
    module = sys.modules.get(reference_of(source.name).partition(":")[0])
    file = getattr(module, "__file__", None)
    return of_sweep(Path(file).parent if file else Path(source.folder))


def keep_origin(study: Path, record: Provenance, code: Code | None) -> Provenance:
    """Keep the code and the uncommitted diff in the study. Returns what provenance has of every
    attempt."""
    ready_code(code, study)
    diff_file = _keep_diff(study, record["diff"])
    return {**record, "diff": diff_file, "code": code and code.digest}


def _keep_diff(study: Path, diff: str) -> str | None:
    """The file of the diff in the study's folder; None without a diff."""
    if not diff:
        return None
    digest = sha256(diff.encode()).hexdigest()[:FILE_DIGITS]
    name = f"{CODE_FOLDER}/{digest}.diff"
    if not (study / name).exists():
        write_atomic(study / name, diff)
    return name
