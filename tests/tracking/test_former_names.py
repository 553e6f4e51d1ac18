"""Files of version 0.1.0 are read under today's names."""

import json
from pathlib import Path
from typing import Any, get_type_hints

from tracking.former_names import DECODE
from tracking.journal import JournalLine
from tracking.trial_folder import TrialFolder
from transformer.config import DecodeConfig
from transformer.versions import Formerly, marker

SCORES = {"nll": 1.0, "ppl": 2.7, "bleu": 30.0, "chrf": 50.0, "bleu_paper": 29.0}
OLD = {"beam": 4, "alpha": 0.6, "max_extra": 50, "average": 5}
NEW = {"beam": 4, "alpha": 0.6, "max_extra": 50, "average_checkpoints": 5}


def write(path: Path, *lines: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def test_the_names_are_those_of_the_schema() -> None:
    hints = get_type_hints(DecodeConfig, include_extras=True)
    assert {former.name: name for name, hint in hints.items() if (former := marker(hint, Formerly))} == DECODE


def test_a_journal_line_kept_the_checkpoint_and_the_mfu_among_its_metrics(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    metrics = {"train/loss": 2.0, "train/utilisation": 0.4, "checkpoint": 40.0}
    write(folder.journal_path, {"ts": 1.0, "attempt": 1, "step": 60, "metrics": metrics})
    assert folder.journal() == [JournalLine(1.0, 1, 60, {"train/loss": 2.0, "train/mfu": 0.4}, checkpoint=40)]


def test_scores_of_a_result_and_of_statistics_have_their_decode_settings_renamed(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    head = {"key": "k", "step": 1, "scores": {**SCORES, "decode": OLD}}
    write(folder.statistics_path("dev"), head, {"nats": 1.0})
    write(folder.hypotheses_path("dev"))
    costs = {"params": 1, "flops": 1.0, "seconds": 1.0, "tokens_per_s": 1.0}
    trial = {"key": "k", "row": "base", "seed": 1, "step": 1, "attempt": 1, "scores": {"dev": head["scores"]}}
    write(folder.result_path, trial | costs)
    result, statistics = folder.result(), folder.statistics("dev")
    assert result is not None
    assert statistics is not None
    found = [result["scores"]["dev"], statistics[0]["scores"], folder.evaluated()["dev"]["scores"]]
    assert [scores["decode"] for scores in found] == [NEW] * 3
