import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tracking.uri import default_uri, without_password
from tracking.views import free_port, page_address, ui_command, ui_environment

ROOT = Path(__file__).parents[2]


def test_artifacts_are_next_to_the_database_in_any_current_directory(tmp_path: Path) -> None:
    command = ui_command(tmp_path, "127.0.0.1", 5000)
    for option in ("--default-artifact-root", "--artifacts-destination"):
        assert command[command.index(option) + 1] == (tmp_path.resolve() / "mlflow-artifacts").as_uri()
    assert ui_environment(default_uri(tmp_path))["MLFLOW_BACKEND_STORE_URI"] == default_uri(tmp_path)
    assert command[command.index("--host") + 1] == "127.0.0.1"


def test_a_server_is_not_served_again() -> None:
    with pytest.raises(ValueError, match="is a running server"):
        ui_environment("http://mlflow.example:5000")


def test_job_runners_are_off() -> None:
    from mlflow.environment_variables import MLFLOW_SERVER_ENABLE_JOB_EXECUTION as SETTING

    assert ui_environment("sqlite:///x.db")[SETTING.name] == "false"


def test_a_port_in_use_is_not_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert free_port(taken.getsockname()[1]) != taken.getsockname()[1]


def test_the_default_store_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_uri(Path("runs")) == f"sqlite:///{tmp_path.resolve()}/runs/mlflow.db"


def test_a_view_in_an_address_is_no_secret() -> None:
    link = page_address("http://127.0.0.1:5000/", "7", "mine", "CHART")
    assert link.startswith("http://127.0.0.1:5000/#/experiments/7/runs?viewStateShareKey=ablate-")
    assert link.endswith("&workflowType=machine_learning&compareRunsMode=CHART")
    assert without_password(link) == link
    assert without_password(f"{link}&api_key=abc") == f"{link}&api_key=***"


def test_passwords_are_taken_out() -> None:
    assert without_password("a=postgresql://me:pw@host/db b") == "a=postgresql://***@host/db b"
    assert without_password("https://host/a@b") == "https://host/a@b"


def test_no_module_imports_slow_packages_or_the_other_layers() -> None:
    """At import: mlflow alone would cost every command three seconds."""
    modules = [path.stem for path in (ROOT / "tracking").glob("*.py") if path.stem != "__init__"]
    heavy = "{'mlflow', 'rich', 'torch', 'ray', 'hydra', 'transformer', 'sweeps'}"
    script = f"import sys, {', '.join('tracking.' + name for name in modules)}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "set()"
