"""`ablate export`: models in the formats of other tools, each used as its card shows."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from mlflow.tracking import MlflowClient
from typed import refusal, typed

from tracking.ledger import RUNS_FILE, Ledger
from tracking.uri import default_uri

TRIAL = ("base-s1", "sweep.name=copies")


def export(folder: Path, *words: str) -> str:
    """The printed output."""
    done = typed(folder, "export", *words)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def example(card: Path) -> list[str]:
    """The lines of code under "Use"."""
    found = re.search(r"^```\w+\n(.*?)\n```$", card.read_text("utf-8"), re.S | re.M)
    assert found
    return found[1].split("\n")


@pytest.fixture(scope="module")
def first(trial: Path) -> str:
    """The trial's translation of the first sentence of dev, which is the example in a card."""
    return (trial / "hypotheses" / "dev.txt").read_text("utf-8").split("\n")[0]


@pytest.fixture(scope="module")
def expected(trial: Path) -> list[str]:
    return (trial / "hypotheses" / "dev.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("kind", ["safetensors", "ctranslate2"])
def test_three_lines_of_the_card_translate(trained: Path, first: str, kind: str) -> None:
    printed = export(trained, *TRIAL, "--to", kind)
    folder = trained / f"copies-base-s1-{kind}"
    lines = example(folder / "README.md")
    assert len(lines) == 3
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # as the trial was evaluated
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.stdout == f"{first}\n", done.stderr
    assert f"{folder.name}/; see its README.md for how to use it" in printed


def test_ctranslate2_with_the_card_s_settings_searches_like_the_trial_without_a_length_penalty(trained: Path) -> None:
    settings = ["decode.alpha=0", "decode.beam=1"]
    short = [*settings, "decode.max_extra=0"]  # so that some outputs are cut
    export(trained, *TRIAL, *short, "--to", "ctranslate2", "--output", "searched")
    lines = (trained / "test.txt").read_text("utf-8").splitlines()
    ours, uncut = (translated(trained, *words) for words in (short, settings))
    assert ours != uncut
    code, known = example(trained / "searched" / "README.md"), (trained / "dev.txt").read_text("utf-8").splitlines()[0]
    assert code[-1].count(f'"{known}"') == 1
    asked = [code[-1].replace(f'"{known}"', json.dumps(line)) for line in lines]
    command = [sys.executable, "-c", "\n".join([*code[:-1], *asked])]
    done = subprocess.run(command, cwd=trained / "searched", capture_output=True, text=True)
    assert done.stdout.splitlines() == ours, done.stderr


def translated(trained: Path, *words: str) -> list[str]:
    """The translations of the test set by `ablate translate`."""
    files = ["--input", "test.txt", "--output", "ours.txt"]
    assert typed(trained, "translate", *TRIAL, *words, *files).exit_code == 0
    return (trained / "ours.txt").read_text("utf-8").splitlines()


def test_an_exported_model_translates_like_its_trial(trained: Path, expected: list[str]) -> None:
    export(trained, *TRIAL, "--to", "safetensors", "--output", "mine", "--average", "1")
    for name in ("mine", "served"):
        if name == "served":
            export(trained, *TRIAL, "--to", "mlflow", "--output", name)
        words = ["--input", "dev.txt", "--output", "target.txt"]
        assert typed(trained, "translate", name, *words).exit_code == 0
        assert (trained / "target.txt").read_text("utf-8").splitlines() == expected
    assert "an exported model has no checkpoints" in refusal(trained, "translate", "mine", "--average", "2")


def test_a_mean_of_checkpoints_is_exported_once(trained: Path) -> None:
    export(trained, *TRIAL, "--to", "safetensors", "--output", "averaged", "--average", "3")
    for name, words in (("averaged", []), ("copies/base-s1", ["--average", "3"])):
        files = ["--input", "test.txt", "--output", f"{Path(name).parent.name}target.txt"]
        assert typed(trained, "translate", name, *words, *files).exit_code == 0
    assert (trained / "target.txt").read_bytes() == (trained / "copiestarget.txt").read_bytes()
    card = (trained / "averaged" / "README.md").read_text("utf-8")
    assert "Of the mean of the last 3 checkpoints" in card
    assert "Not measured with these settings" in card


def test_the_code_that_trains_is_not_needed(trained: Path) -> None:
    export(trained, *TRIAL, "--to", "safetensors", "--output", "alone")
    code = "import sys; from transformer.decoding.serve import open_exported; open_exported('alone')"
    code += "; print(*(name for name in sys.modules if name.split('.')[0] in ('transformer', 'sweeps', 'tracking')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=trained, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "transformer.decoding.search" in loaded
    assert not {"transformer.training.train", "transformer.training.checkpoint", "sweeps", "tracking"} & loaded


def test_a_card_holds_scores_and_provenance(trained: Path, trial: Path) -> None:
    export(trained, *TRIAL, "--to", "safetensors", "--output", "carded")
    card = (trained / "carded" / "README.md").read_text("utf-8")
    result = json.loads((trial / "result.json").read_text("utf-8"))
    for name, scores in result["scores"].items():
        numbers = " | ".join(f"{scores[key]:.2f}" for key in ("ppl", "bleu", "bleu_paper", "chrf"))
        assert f"| {name} | {numbers} |" in card
        assert all(f"`{scores[key]}`" in card for key in ("signature", "bleu_paper_signature", "chrf_signature"))
    provenance = json.loads((trial / "provenance.json").read_text("utf-8"))
    for said in (result["key"], str(provenance["commit"]), provenance["data_fingerprint"], "400 steps, seed 1"):
        assert said in card
    assert "beam 4, α 0.6" in card
    assert "translates en to de" in card


@contextmanager
def served(model: str, uri: str, folder: Path) -> Iterator[str]:
    """Serve the model with `mlflow models serve`; yields its address, and ends the server with its children."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["mlflow", "models", "serve", "--model-uri", model, "--env-manager", "local", "--port", str(port)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it brings its own code
    environment = {**kept, "PATH": path, "MLFLOW_TRACKING_URI": uri, "MLFLOW_DISABLE_TELEMETRY": "true"}
    log = (folder / "serve.log").open("w")
    process = subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/ping", process)
        yield f"http://127.0.0.1:{port}/invocations"
    finally:
        family: list[psutil.Process | subprocess.Popen[bytes]] = [
            *psutil.Process(process.pid).children(recursive=True),
            process,
        ]
        for member in family:
            member.terminate()
        process.wait(30)
        log.close()


def wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
    raise AssertionError(f"{address} does not answer")


def ask(address: str, question: Any) -> Any:
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(question).encode(), head)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def test_a_registered_model_is_served_over_http(trained: Path, tmp_path: Path, expected: list[str]) -> None:
    printed = export(trained, *TRIAL, "--to", "mlflow", "--output", "registered", "--register", "copies@champion")
    found = re.search(r"Next: MLFLOW_TRACKING_URI=(\S+) mlflow models serve --model-uri (\S+) ", printed)
    assert found
    assert found[2] == "models:/copies@champion"
    lines = (trained / "dev.txt").read_text("utf-8").splitlines()
    with served(found[2], found[1], tmp_path) as address:
        card = example(trained / "registered" / "README.md")
        body = re.search(r"--data '(.*)'", card[-1])
        assert body
        assert ask(address, json.loads(body[1])) == {"predictions": expected[:1]}
        split = {"dataframe_split": {"columns": ["text"], "data": [[line] for line in [*lines, ""]]}}
        assert ask(address, split) == {"predictions": [*expected, ""]}


def test_a_version_keeps_its_files_when_the_next_is_registered(trained: Path, trial: Path) -> None:
    for version in ("one", "two"):
        words = ["--to", "mlflow", "--output", f"version-{version}", "--register", "versions"]
        export(trained, *TRIAL, *words, *(["--average", "2"] if version == "two" else []))
    found = MlflowClient(default_uri(trained / "runs")).search_model_versions("name='versions'")
    places = {version.source for version in found}
    (run_id,) = json.loads((trial.parent / "mlflow-runs.json").read_text()).popitem()[1].values()
    assert len(places) == 2
    assert {version.run_id for version in found} == {run_id}
    files = [Path(place.removeprefix("file://")) / "data/exported/model.safetensors" for place in places]
    weights = {file.read_bytes() for file in files}
    assert len(weights) == 2


@pytest.mark.parametrize("kind", ["safetensors", "ctranslate2", "mlflow"])
def test_no_folder_and_no_mirror_of_its_maker_is_shipped(trained: Path, trial: Path, kind: str) -> None:
    """A mirror does not change a trial's key, so it may be added later."""
    study = trained / "runs" / "mirrored"
    if not study.exists():
        shutil.copytree(trial.parent, study)
        config = study / trial.name / "config.yaml"
        mirrored = config.read_text("utf-8").replace("mirror: null", "mirror: https://anna:secret@mirror.example/text")
        assert "secret" in mirrored
        config.write_text(mirrored, "utf-8")
    export(trained, "mirrored/base-s1", "--to", kind, "--output", f"shipped-{kind}")
    files = [path for path in (trained / f"shipped-{kind}").rglob("*") if path.is_file()]
    assert {"README.md", "vocabulary.model"} <= {path.name for path in files}
    for private in (str(trained), "secret", "mirror.example"):
        assert not [path for path in files if private.encode() in path.read_bytes()]


@pytest.fixture
def run_at(trial: Path) -> Iterator[Callable[[str], None]]:
    """A function that records a run of the trial at a URI, as if one existed there."""
    key, ledger = json.loads((trial / "result.json").read_text("utf-8"))["key"], trial.parent / RUNS_FILE
    before = ledger.read_text("utf-8")
    yield lambda uri: Ledger(ledger, uri).put(key, "0123456789abcdef0123456789abcdef")
    ledger.write_text(before, "utf-8")


def test_an_interrupted_registration_can_be_repeated(trained: Path, run_at: Callable[[str], None]) -> None:
    before = sorted(trained.iterdir())
    words = ["export", *TRIAL, "--to", "mlflow", "--output", "interrupted", "--register", "interrupted"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        run_at(uri)
        command = [sys.executable, "-m", "sweeps.cli", *words, f"tracking.uri={uri}"]
        process = subprocess.Popen(command, cwd=trained, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        silent.settimeout(120)
        asked, _ = silent.accept()  # the model is written, and MLflow is asked to take it
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)
        asked.close()
    assert (process.returncode, printed) == (130, ""), said
    assert "run again" in said
    assert sorted(trained.iterdir()) == before
    export(trained, *words[1:])
    assert (trained / "interrupted" / "README.md").is_file()


def test_a_failed_registration_can_be_repeated(
    trained: Path, run_at: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    before = sorted(trained.iterdir())
    words = [*TRIAL, "--to", "mlflow", "--output", "failed", "--register", "failed"]
    run_at("http://127.0.0.1:9")  # nothing listens there
    said = refusal(trained, "export", *words, "tracking.uri=http://127.0.0.1:9")
    assert "--register failed: " in said
    assert "fix the cause, then run it again" in said
    assert sorted(trained.iterdir()) == before
    export(trained, *words)


def test_all_problems_are_reported_at_once(trained: Path) -> None:
    words = ["--to", "safetensors", "--output", "runs", "--register", "a/b"]
    said = refusal(trained, "export", *TRIAL, *words, "tracking.uri=http://anna:secret@127.0.0.1:9")
    assert said.startswith("Refused, for 4 reasons: --output runs exists")
    for each in ("is given with --to safetensors", 'is "a/b"', "has no run at http://127.0.0.1:9"):
        assert each in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "safetensors", "--output", "runs"], "--output runs exists must be a new folder"),
        (["--to", "safetensors", "--register", "a"], "needs --to mlflow: MLflow serves no other format"),
        (["--to", "mlflow", "--register", "a/b"], "must be NAME or NAME@ALIAS"),
        (["--to", "mlflow", "--register", "a@v3"], "must be NAME or NAME@ALIAS"),
        (["--to", "mlflow", "--register", "a", "tracking.uri=sqlite:////x.db"], "has no run at sqlite:////x.db"),
        (["--to", "mlflow", "--average", "9"], "must be at most 4, the number of checkpoints kept"),
    ],
)
def test_impossible_requests_are_refused_and_leave_no_file(trained: Path, words: list[str], said: str) -> None:
    before = sorted(trained.iterdir())
    assert said in refusal(trained, "export", *TRIAL, *words)
    assert sorted(trained.iterdir()) == before


def test_a_model_of_another_package_is_refused_with_the_name_of_its_card(trained: Path) -> None:
    export(trained, *TRIAL, "--to", "ctranslate2", "--output", "foreign")
    said = refusal(trained, "translate", "foreign")
    assert "is a CTranslate2 model" in said
    assert "foreign/README.md" in said
