"""Checkpoints in a bucket of a real S3 server on this machine: saved there, and resumed and
translated from there."""

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from moto.server import ThreadedMotoServer
from small_text import TEXT
from studies import SMALL, lines
from typed import typed

WORDS = ["train", *SMALL, *TEXT, "sweep.name=kept", "train.steps=40", "train.checkpoint_every=10"]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket, reached through environment variables, like any user's."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    fsspec.filesystem("s3").mkdir("checkpoints")
    yield "s3://checkpoints"
    server.stop()


@pytest.mark.slow
def test_a_trial_is_resumed_and_translated_from_a_bucket(workplace: Path, s3: str) -> None:
    trial = workplace / "runs" / "kept" / "base-s1"
    override = f"paths.checkpoints={s3}/study"
    first = typed(workplace, *WORDS, override)
    assert first.exit_code == 0, first.output
    assert not (trial / "checkpoints").exists()
    result_before = json.loads((trial / "result.json").read_text())
    (trial / "result.json").unlink()
    second = typed(workplace, *WORDS, override)
    assert second.exit_code == 0, second.output
    result_after = json.loads((trial / "result.json").read_text())
    assert (result_after["scores"], result_after["attempt"]) == (result_before["scores"], 2)
    assert {line["attempt"] for line in lines(trial / "journal.jsonl")} == {1}, (
        "no step was trained again"
    )
    translation = typed(workplace, "translate", "kept/base-s1", override, "--input", "dev.txt")
    assert len(translation.stdout.splitlines()) == 6, translation.output
