"""What a person who watches a sweep wants to know: where things are, and that to stop is safe."""

import shlex

from sweeps.planning.naming import called
from sweeps.planning.plan import Plan
from tracking.uri import without_password


def where_things_are(plan: Plan) -> tuple[str, ...]:
    """Three lines below the live view, or before the first line of a run without a terminal."""
    study, uri = plan.folder, plan.composition.shared.tracking.uri
    words = called(study)
    store = without_password(uri, mark="") if uri else str(study.parent / "mlflow.db")
    ui = shlex.join(["ablate", "ui"])
    logs = f"{study}/<trial>/log.txt, shown by `{shlex.join(['ablate', 'logs', 'TRIAL', *words])} --follow`"
    other = f"`{shlex.join(['ablate', 'status', *words])} --watch`, `{shlex.join(['ablate', 'stop', *words])}`"
    return (
        f"Ctrl-C is safe: trials save a checkpoint, and the same command resumes. From other terminals: {other}",
        f"Logs: {logs}",
        f"MLflow: {store}, shown by `{ui}`",
    )
