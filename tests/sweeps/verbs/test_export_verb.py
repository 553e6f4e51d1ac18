"""`allelse export`: models in the formats of other tools, each used as its card shows."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from studies import wait_until
from typed import printed, refusal, typed

TRIAL = ("base-s1", "sweep.name=copies")


def export(folder: Path, *words: str) -> str:
    return printed(folder, "export", *words)


def example(card: Path) -> list[str]:
    """The lines of code under "Use"."""
    match = re.search(r"^```\w+\n(.*?)\n```$", card.read_text("utf-8"), re.S | re.M)
    assert match
    return match[1].split("\n")


@pytest.fixture(scope="module")
def expected(trial: Path) -> list[str]:
    """The trial's translations of dev; the first sentence is the example in a card."""
    return (trial / "hypotheses" / "dev.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("kind", ["safetensors", "ctranslate2"])
def test_three_lines_of_the_card_translate(trained: Path, expected: list[str], kind: str) -> None:
    printed = export(trained, *TRIAL, "--to", kind)
    folder = trained / f"copies-base-s1-{kind}"
    lines = example(folder / "README.md")
    assert len(lines) == 3
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # as the trial was evaluated
    command = [sys.executable, "-c", "\n".join(lines)]
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert process.stdout == f"{expected[0]}\n", process.stderr
    assert f"{folder.name}/; see its README.md for how to use it" in printed


def test_ctranslate2_with_the_card_s_settings_searches_like_the_trial_without_a_length_penalty(
    trained: Path,
) -> None:
    settings = ["decode.alpha=0", "decode.beam=1"]
    short_settings = [*settings, "decode.max_extra=0"]  # so that some outputs are cut
    export(trained, *TRIAL, *short_settings, "--to", "ctranslate2", "--output", "searched")
    lines = (trained / "test.txt").read_text("utf-8").splitlines()
    translations, uncut_translations = (
        translated(trained, *words) for words in (short_settings, settings)
    )
    assert translations != uncut_translations
    code = example(trained / "searched" / "README.md")
    sentence = (trained / "dev.txt").read_text("utf-8").splitlines()[0]
    assert code[-1].count(f'"{sentence}"') == 1
    calls = [code[-1].replace(f'"{sentence}"', json.dumps(line)) for line in lines]
    command = [sys.executable, "-c", "\n".join([*code[:-1], *calls])]
    process = subprocess.run(command, cwd=trained / "searched", capture_output=True, text=True)
    assert process.stdout.splitlines() == translations, process.stderr


def translated(trained: Path, *words: str) -> list[str]:
    """The translations of the test set by `allelse translate`."""
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
    assert "an exported model has no checkpoints" in refusal(
        trained, "translate", "mine", "--average", "2"
    )
    assert "decode.beam is 0 must be a whole number" in refusal(
        trained, "translate", "mine", "decode.beam=0"
    )
    assert typed(trained, "translate", "mine", "decode.beam=1", *words).exit_code == 0


def test_a_card_holds_scores_and_provenance(trained: Path, trial: Path) -> None:
    export(trained, *TRIAL, "--to", "safetensors", "--output", "carded")
    card = (trained / "carded" / "README.md").read_text("utf-8")
    result = json.loads((trial / "result.json").read_text("utf-8"))
    for name, scores in result["scores"].items():
        numbers = " | ".join(f"{scores[key]:.2f}" for key in ("ppl", "bleu", "bleu_paper", "chrf"))
        assert f"| {name} | {numbers} | {scores['accuracy']:.4f} |" in card
        assert all(
            f"`{scores[key]}`" in card
            for key in ("signature", "bleu_paper_signature", "chrf_signature")
        )
    provenance = json.loads((trial / "provenance.json").read_text("utf-8"))
    for text in (
        result["key"],
        str(provenance["commit"]),
        provenance["data_fingerprint"],
        "400 steps, seed 1",
    ):
        assert text in card
    assert "beam 4, α 0.6" in card
    assert "translates en to de" in card


@contextmanager
def served(model: str, uri: str, folder: Path) -> Iterator[str]:
    """Serve the model with `mlflow models serve`; yields its address, and ends the server with its
    children."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [
        "mlflow",
        "models",
        "serve",
        "--model-uri",
        model,
        "--env-manager",
        "local",
        "--port",
        str(port),
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # it brings its own code
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {
        **variables,
        "PATH": path,
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    log = (folder / "serve.log").open("w")
    process = subprocess.Popen(
        words, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
    )
    try:
        wait_until(
            lambda: answers(f"http://127.0.0.1:{port}/ping") or process.poll() is not None,
            "the server",
        )
        yield f"http://127.0.0.1:{port}/invocations"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(600)
        log.close()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:  # not yet, or too busy
        return False


def ask(address: str, question: Any) -> Any:
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(question).encode(), head)
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.loads(answer.read())


def test_an_earlier_checkpoint_has_a_folder_and_a_card_of_its_own(
    trained: Path, attempt: Path
) -> None:
    printed(trained, "export", str(attempt / "step-200"), "--to", "safetensors")
    folder = trained / "copies-base-s1-step-200-safetensors"
    assert "Of the checkpoint of step 200; beam" in (folder / "README.md").read_text("utf-8")


def test_a_registered_model_is_served_over_http(
    trained: Path, tmp_path: Path, expected: list[str]
) -> None:
    printed = export(
        trained, *TRIAL, "--to", "mlflow", "--output", "registered", "--register", "copies@champion"
    )
    match = re.search(
        r"Next: MLFLOW_TRACKING_URI=(\S+) mlflow models serve --model-uri (\S+) ", printed
    )
    assert match
    assert match[2] == "models:/copies@champion"
    lines = (trained / "dev.txt").read_text("utf-8").splitlines()
    with served(match[2], match[1], tmp_path) as address:
        card = example(trained / "registered" / "README.md")
        body = re.search(r"--data '(.*)'", card[-1])
        assert body
        assert ask(address, json.loads(body[1])) == {"predictions": expected[:1]}
        split = {
            "dataframe_split": {"columns": ["text"], "data": [[line] for line in [*lines, ""]]}
        }
        assert ask(address, split) == {"predictions": [*expected, ""]}


@pytest.mark.parametrize("kind", ["safetensors", "ctranslate2", "mlflow"])
def test_no_folder_and_no_mirror_of_its_maker_is_shipped(
    trained: Path, trial: Path, kind: str
) -> None:
    """A mirror does not change a trial's key, so it may be added later."""
    study = trained / "runs" / "mirrored"
    if not study.exists():
        shutil.copytree(trial.parent, study)
        config = study / trial.name / "config.yaml"
        mirrored = config.read_text("utf-8").replace(
            "mirror: null", "mirror: https://anna:sesame@mirror.example/text"
        )
        assert "sesame" in mirrored
        config.write_text(mirrored, "utf-8")
    export(trained, "mirrored/base-s1", "--to", kind, "--output", f"shipped-{kind}")
    files = [path for path in (trained / f"shipped-{kind}").rglob("*") if path.is_file()]
    assert {"README.md", "vocabulary.model"} <= {path.name for path in files}
    for private in (str(trained), "sesame", "mirror.example"):
        assert not [path for path in files if private.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "safetensors", "--output", "runs"], "--output runs exists must be a new folder"),
        (
            ["--to", "safetensors", "--register", "a"],
            "needs --to mlflow: MLflow serves no other format",
        ),
        (["--to", "mlflow", "--register", "a/b"], "must be NAME or NAME@ALIAS"),
        (["--to", "mlflow", "--register", "a@v3"], "must be NAME or NAME@ALIAS"),
        (
            ["--to", "mlflow", "--register", "a", "tracking.uri=sqlite:////x.db"],
            "has no run at sqlite:////x.db",
        ),
        (
            ["--to", "mlflow", "--average", "9"],
            "decode.average_every is 100",
        ),
    ],
)
def test_impossible_requests_are_refused_and_leave_no_file(
    trained: Path, words: list[str], said: str
) -> None:
    files_before = sorted(trained.iterdir())
    assert said in refusal(trained, "export", *TRIAL, *words)
    assert sorted(trained.iterdir()) == files_before


def test_a_model_is_registered_where_the_study_was_synced_last(
    trained: Path, tmp_path: Path
) -> None:
    here = Path(shutil.copytree(trained, tmp_path / "here"))
    state = here / "runs" / "copies" / "mlflow-sync.json"
    state.write_text(json.dumps({"uri": "http://host:5000", "carried": None, "problems": []}))
    assert "has no run at http://host:5000" in refusal(
        here, "export", *TRIAL, "--to", "mlflow", "--register", "a"
    )
