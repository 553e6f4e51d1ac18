"""What the processes of a sweep do not import, so that they start soon."""

import subprocess
import sys

TUNE = "ray.tune"
TORCH = "torch"
MLFLOW = "mlflow"
PLAN = "sweeps.planning.plan"
UNNEEDED = {
    "sweeps.running.group": {TUNE, TORCH, MLFLOW, PLAN},
    "sweeps.running.trial_process": {TORCH, MLFLOW, PLAN},
    "sweeps.running.tune": {TORCH, MLFLOW},
}
"""By the module that a process begins with. Each is imported after those before it, which need no
more."""


def test_a_process_of_a_sweep_imports_what_it_needs() -> None:
    script = "import sys\n" + "".join(
        f"import {module}; print(*sys.modules)\n" for module in UNNEEDED
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    for (module, unneeded), imported in zip(
        UNNEEDED.items(), process.stdout.splitlines(), strict=True
    ):
        assert not unneeded & set(imported.split()), module
