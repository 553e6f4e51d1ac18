"""What a person who watches a sweep wants to know: where things are, and that to stop is safe."""

import shlex

from sweeps.planning.naming import called
from sweeps.planning.plan import Plan
from tracking.uri import without_password


def where_things_are(plan: Plan) -> tuple[str, ...]:
    """The lines below the live view, or before the first line of a run without a terminal."""
    study, uri = plan.folder, plan.composition.shared.tracking.uri
    store = without_password(uri, mark="") if uri else str(study.parent / "mlflow.db")
    named = shlex.join(called(study))

    def verb(*words: str) -> str:
        return f"`{' '.join(filter(None, ['ablate', *words]))}`"

    return (
        "Ctrl-C is safe: trials save a checkpoint, and the same command resumes.",
        f"From another terminal: {verb('status', named, '--watch')}, {verb('stop', named)}",
        f"Logs: {study}/TRIAL/log.txt, {verb('logs', 'TRIAL', named, '--follow')}",
        f"MLflow: {store}, {verb('ui')}",
    )
