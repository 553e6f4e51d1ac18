"""Lines below the live view: where logs and MLflow are, and that stopping is safe."""

from pathlib import Path

from sweeps.planning.naming import by_name, placed
from sweeps.planning.plan import Plan
from tracking.mlflow.lag import current_store
from tracking.uri import default_uri, without_password
from tracking.words import shell_line


def below_live_view(plan: Plan) -> tuple[str, ...]:
    """The lines below the live view, or before the first line of a run without a terminal."""
    study, uri = plan.folder, plan.composition.shared.tracking.uri
    return (
        "Ctrl-C is safe: trials save a checkpoint, and the same command resumes.",
        f"From another terminal: {_verb(study, 'status', '--watch')}, {_verb(study, 'stop')}",
        *_places(study, uri or default_uri(study.parent)),
    )


def below_watch(study: Path) -> tuple[str, ...]:
    """The lines below what `allelse status --watch` shows."""
    return (
        f"Ctrl-C ends only this view. {_verb(study, 'stop')} ends the sweep, which saves checkpoints first.",
        *_places(study, current_store(study)),
    )


def _places(study: Path, uri: str) -> tuple[str, ...]:
    store = str(study.parent / "mlflow.db") if uri == default_uri(study.parent) else without_password(uri, mark="")
    return (
        f"Logs: {study}/TRIAL/log.txt, {_verb(study, 'logs', '--follow', trial='TRIAL')}",
        f"MLflow: {store}, `{shell_line(['allelse', 'ui', *placed(study)])}`",
    )


def _verb(study: Path, verb: str, option: str = "", trial: str = "") -> str:
    named = shell_line([by_name(study), *placed(study)])
    return f"`{' '.join(filter(None, ['allelse', verb, trial, named, option]))}`"
