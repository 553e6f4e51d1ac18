"""One installed version in a folder of its own: what it answers and writes, as data that two runs
share."""

import csv
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cases import Case
from served_commands import PROGRAM, TORCH, run_command

VOLATILE = re.compile(
    r"ts|checkpoint|asked|active|seconds|cpu_seconds|host|hosts|driver|pid|birth|lineage|run|commit|dirty|changes|command"
    r"|versions|(.*/)?\w*(per_s|data_wait|mfu)|device_flops|sustained|pace|system/.*"
    r"|mlflow\.(user|source.*|runColor|loggedArtifacts|note.content)"
)
"""Names of what two runs do not share: times, processes, commits, what was on disk when a step was
reported."""
LINEAGE = re.compile(r"(?<=checkpoints/[0-9a-f]{16})-\w+")
"""In the path of a checkpoint: random."""
READ: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "yaml": yaml.safe_load,
    "csv": lambda text: list(map(numbers, csv.DictReader(io.StringIO(text)))),
    "lines": str.splitlines,
    "": lambda text: None,
}


def numbers(row: dict[str, str]) -> dict[str, float | str]:
    return {name: number(text) for name, text in row.items()}


def number(text: str) -> float | str:
    """Of a cell: whole ones were written with a point."""
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Installation:
    """The program, and a folder where it is typed."""

    program: Path
    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    def type(self, words: str, types: str = "") -> subprocess.CompletedProcess[str]:
        typed = [str(self.program), *shlex.split(words)]
        environment = os.environ | {"COLUMNS": "160"}
        if self.program == PROGRAM:
            return run_command(typed, self.folder, environment, types, modules=TORCH)
        return subprocess.run(
            typed,
            cwd=self.folder,
            env=environment,
            input=types,
            capture_output=True,
            text=True,
            check=False,
        )

    def must(self, words: str) -> None:
        process = self.type(words)
        assert process.returncode == 0, f"{words}: {process.stdout}{process.stderr}"

    def observe(self, case: Case) -> dict[str, Any]:
        """Exit code, missing words, new files and output of a command."""
        if case.file:
            (self.folder / case.file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / case.file).write_text(case.content, "utf-8")
        old_files = self._files()
        process = self.type(case.words, case.types)
        new = [
            file
            for file in self._files()
            if file not in old_files and (case.code or file.split("/")[0] != "runs")
        ]
        if case.file:
            (self.folder / case.file).unlink()
        output = " ".join((process.stdout + process.stderr).split())
        missing = [word for word in case.says.split() if word not in output]
        unwanted = re.findall(r"Traceback.*", output)
        data = self._plain(READ[case.reads](process.stdout)) if process.returncode == 0 else None
        outcome = re.findall(r"Nothing was \w+\.", output)
        return {
            "code": process.returncode,
            "missing": missing + unwanted,
            "new": new,
            "data": data,
            "outcome": outcome,
        }

    def _files(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()
        )

    def _plain(self, data: Any) -> Any:
        """Without volatile names, and with paths relative to the folder."""
        if isinstance(data, dict):
            return {
                name: self._plain(value)
                for name, value in data.items()
                if not VOLATILE.fullmatch(str(name))
            }
        if isinstance(data, list):
            return [self._plain(value) for value in data]
        return data.replace(f"{self.folder}/", "") if isinstance(data, str) else data

    def study(self, name: str) -> dict[str, Any]:
        """The files of a study, with the content of those that programs read; checkpoints by their
        names."""
        root = self.folder / "runs" / name
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        paths = {LINEAGE.sub("", str(path.relative_to(root))): path for path in files}
        return {
            file: self._content(path)
            for file, path in paths.items()
            if not file.startswith((".", "mlflow-"))
        }

    def _content(self, path: Path) -> Any:
        if "checkpoints" in path.parts:
            return None
        if path.suffix == ".jsonl":
            return [self._plain(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        if path.suffix in (".json", ".yaml"):
            return self._plain(yaml.safe_load(path.read_text("utf-8")))
        return path.read_text("utf-8").splitlines() if path.parent.name == "hypotheses" else None

    def runs(self, study: str) -> dict[str, Any]:
        """What MLflow's own client reads of a study's experiment."""
        from mlflow.tracking import MlflowClient

        client = MlflowClient(f"sqlite:///{self.folder / 'runs' / 'mlflow.db'}")
        experiment = client.get_experiment_by_name(study)
        records = {}
        for run in client.search_runs([experiment.experiment_id]):
            names = [name for name in run.data.metrics if not VOLATILE.fullmatch(name)]
            points = {}
            for name in names:
                history = client.get_metric_history(run.info.run_id, name)
                points[name] = [(point.step, point.value) for point in history]
            records[run.info.run_name] = {
                "status": run.info.status,
                "params": run.data.params,
                "tags": self._plain(run.data.tags),
                "points": points,
            }
        return records

    def weights(self, study: str, row: str) -> str:
        """The SHA-256 of a trial's exported weights."""
        folder_name = f"weights-{study}-{row}"
        self.must(f"export {row}-s1 sweep.name={study} --to safetensors --output {folder_name}")
        return hashlib.sha256(
            (self.folder / folder_name / "model.safetensors").read_bytes()
        ).hexdigest()
