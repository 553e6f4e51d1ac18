"""`allelse evaluate`: every score with its signature, each set decoded once, everything kept."""

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typed import printed, refusal, typed

from sweeps.planning.studies.trial_lock import trial_lock
from tracking.trial import TrialFolder
from transformer.card import CARD

TRIAL = ("base-s1", "sweep.name=copies")


def evaluated(folder: Path, *words: str) -> Any:
    return json.loads(printed(folder, "evaluate", *words, "--json"))


def sacrebleu(trained: Path, hypotheses: Path, set_name: str, *words: str) -> str:
    """The output of sacreBLEU's own command for the file of hypotheses."""
    files = [str(trained / f"{set_name}.txt"), "-i", str(hypotheses)]
    typed_words = [sys.executable, "-m", "sacrebleu", *files, *words]
    return subprocess.run(typed_words, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def twin(trained: Path, trial: Path) -> Path:
    """A copy of the trial in another study, which tests may change."""
    study = trained / "runs" / "twins"
    shutil.rmtree(study, ignore_errors=True)
    return shutil.copytree(trial.parent, study) / "base-s1"


def test_the_scores_of_the_trial_itself_are_shown_without_decoding_again(
    trained: Path, trial: Path
) -> None:
    stat_before = (trial / "hypotheses" / "dev.txt").stat()
    dev, test = evaluated(trained, *TRIAL)
    scores = json.loads((trial / "result.json").read_text("utf-8"))["scores"]
    for line, name in ((dev, "dev"), (test, "test")):
        assert (line["trial"], line["set"], line["sentences"], line["step"]) == (
            "copies/base-s1",
            name,
            40,
            400,
        )
        assert {key: line[key] for key in scores[name]} == scores[name]
        assert line["hypotheses"] == str(trial / "hypotheses" / f"{name}.txt")
        assert line["decoded"] is False
    assert (trial / "hypotheses" / "dev.txt").stat() == stat_before


def test_several_settings_of_a_row_are_one_table(trained: Path) -> None:
    lines = evaluated(trained, "base", "sweep.name=copies", "decode.beam=1,4", "--set", "dev")
    assert [(line["trial"], line["set"], line["decode"]["beam"]) for line in lines] == [
        ("copies/base-s1", "dev", 1),
        ("copies/base-s1", "dev", 4),
    ]
    assert lines[1]["decoded"] is False, "the trial's own settings"
    table = printed(
        trained, "evaluate", "base", "sweep.name=copies", "decode.beam=1,4", "--set", "dev"
    )
    assert "beam 1" in table
    assert "beam 4" in table
    scores = table.partition("Next: ")[0]
    assert "base-s1" in scores
    assert "copies/base-s1" not in scores, "all trials are of one study"
    unlike = refusal(trained, "evaluate", "base", "sweep.name=copies", "model.n_heads=1,4")
    assert "model.n_heads (command line) cannot be changed once a model is trained" in unlike


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_a_score_equals_that_of_the_sacrebleu_command_to_the_last_digit(
    trained: Path, metric: str
) -> None:
    (line,) = evaluated(trained, *TRIAL, "--set", "test")
    assert 10 < line[metric] < 95
    hypotheses = Path(line["hypotheses"])
    assert (
        sacrebleu(trained, hypotheses, "test", "-m", metric, "-b", "-w", "12")
        == f"{line[metric]:.12f}"
    )


def test_the_statistics_of_every_sentence_are_kept(trained: Path, trial: Path) -> None:
    _, line = evaluated(trained, *TRIAL)
    statistics = TrialFolder(trial, CARD).statistics("test")
    assert statistics is not None
    head, sentences = statistics
    assert head["scores"] == {key: line[key] for key in head["scores"]}
    nats = math.fsum(sentence["nats"] for sentence in sentences)
    pieces = math.fsum(sentence["pieces"] for sentence in sentences)
    assert line["ppl"] == pytest.approx(math.exp(nats / pieces))
    lengths = [
        len(text.split()) for text in Path(line["hypotheses"]).read_text("utf-8").splitlines()
    ]
    assert [
        sentence["bleu_paper"][0] for sentence in sentences
    ] != lengths  # a-b are three tokens there


def test_lost_evaluations_are_repeated_with_the_same_scores(
    trained: Path, trial: Path, twin: Path
) -> None:
    shutil.rmtree(twin / "statistics")
    (twin / "hypotheses" / "dev.txt").unlink()
    (line,) = evaluated(trained, "twins/base-s1", "--set", "dev")
    assert line["decoded"] is True
    for file_name in ("hypotheses/dev.txt", "statistics/dev.jsonl"):
        assert (twin / file_name).read_text("utf-8") == (trial / file_name).read_text("utf-8"), (
            file_name
        )
    again, result_before = (
        json.loads((folder / "result.json").read_text("utf-8")) for folder in (twin, trial)
    )
    assert again == {**result_before, "scoring": result_before["scoring"] + 1}
    assert evaluated(trained, "twins/base-s1", "--set", "dev")[0]["decoded"] is False


def test_other_decoding_is_kept_apart_from_the_trial_s_own(
    trained: Path, trial: Path, twin: Path
) -> None:
    words = ("twins/base-s1", "--set", "dev", "decode.beam=1", "--average", "2")
    (line,) = evaluated(trained, *words)
    assert line["decoded"] is True
    assert (line["decode"]["beam"], line["decode"]["average_checkpoints"]) == (1, 2)
    assert line["hypotheses"] == str(twin / "hypotheses" / "dev@beam1-average_checkpoints2.txt")
    assert line["nll"] != evaluated(trained, "twins/base-s1", "--set", "dev")[0]["nll"]
    assert evaluated(trained, *words) == [{**line, "decoded": False}]
    next_line = printed(trained, "evaluate", *words).splitlines()[-1]
    assert next_line.endswith("translate runs/twins/base-s1 --average 2 decode.beam=1")
    for file_name in ("hypotheses/dev.txt", "statistics/dev.jsonl", "result.json"):
        assert (twin / file_name).read_text("utf-8") == (trial / file_name).read_text("utf-8"), (
            file_name
        )


def test_an_unknown_set_is_refused_with_the_nearest(trained: Path) -> None:
    message = refusal(trained, "evaluate", *TRIAL, "--set", "tset")
    assert '--set files has no set "tset" must be one of dev, test' in message
    assert "did you mean test?" in message
    assert "did you mean wmt14/full?" in refusal(trained, "evaluate", *TRIAL, "--set", "wmt14/ful")


def test_a_trial_that_another_process_writes_is_left_alone(trained: Path, twin: Path) -> None:
    (twin / "statistics" / "dev.jsonl").unlink()
    with trial_lock(TrialFolder(twin, CARD)):
        message = refusal(trained, "evaluate", "twins/base-s1")
    assert "base-s1 is being run by another process wait for it Nothing was done." in message


def test_settings_of_an_interrupted_evaluation_do_not_mix_with_a_result(
    trained: Path, twin: Path
) -> None:
    """`allelse sweep decode.beam=1` wrote its settings, and was stopped before it evaluated."""
    config = twin / "config.yaml"
    result = (twin / "result.json").read_text("utf-8")
    config.write_text(config.read_text("utf-8").replace("beam: 4", "beam: 1"), "utf-8")
    (line,) = evaluated(trained, "twins/base-s1", "--set", "dev")
    assert (line["decoded"], line["decode"]["beam"]) == (True, 1)
    assert (twin / "result.json").read_text("utf-8") == result


def test_a_sample_of_train_is_evaluated_without_decoding_and_kept(
    trained: Path, trial: Path, twin: Path
) -> None:
    (line,) = evaluated(trained, "twins/base-s1", "--set", "train_sample")
    assert (line["decoded"], line["sentences"], line["hypotheses"]) == (True, 40, None)
    assert "bleu" not in line
    statistics = TrialFolder(twin, CARD).statistics("train_sample")
    assert statistics is not None
    right = sum(sample["right"] for sample in statistics[1])
    pieces = sum(sample["pieces"] for sample in statistics[1])
    assert 0.9 < line["accuracy"] == right / pieces
    assert not (twin / "hypotheses" / "train_sample.txt").exists()
    assert evaluated(trained, "twins/base-s1", "--set", "train_sample") == [
        {**line, "decoded": False}
    ]
    evaluations = json.loads(
        printed(trained, "table", "sweep.name=twins", "--set", "train_sample", "--format", "json")
    )
    assert evaluations[0]["ppl"] == line["ppl"]
    assert [evaluation["set"] for evaluation in evaluated(trained, *TRIAL)] == ["dev", "test"]


def test_a_sample_of_train_is_evaluated_in_a_study_that_recorded_no_sets_without_texts(
    trained: Path, twin: Path
) -> None:
    path = twin.parent / "study.json"
    study = json.loads(path.read_text("utf-8"))
    del study["task"]["sets_without_artifacts"]
    path.write_text(json.dumps(study), "utf-8")
    (line,) = evaluated(trained, "twins/base-s1", "--set", "train_sample")
    assert evaluated(trained, "twins/base-s1", "--set", "train_sample") == [
        {**line, "decoded": False}
    ]


def test_scoring_again_takes_the_tokenizer_of_bleu_and_adds_the_sample(
    trained: Path, trial: Path, twin: Path
) -> None:
    """`allelse train` on a finished trial only scores."""
    words = ("data.bleu_tokenizer=char", "decode.train_sample=true", "train.seed=1")
    outcome = typed(trained, "train", "sweep.name=twins", *words)
    assert outcome.exit_code == 0, outcome.output
    result_before, result_after = (
        json.loads((folder / "result.json").read_text("utf-8")) for folder in (trial, twin)
    )
    assert (result_after["key"], result_after["step"], result_after["seconds"]) == (
        result_before["key"],
        result_before["step"],
        result_before["seconds"],
    )
    assert [*result_after["scores"]] == ["dev", "test", "train_sample"]
    old_scores = result_before["scores"]["test"]
    new_scores = result_after["scores"]["test"]
    bleu = sacrebleu(
        trained, twin / "hypotheses" / "test.txt", "test", "-b", "-w", "12", "--tokenize", "char"
    )
    assert bleu == f"{new_scores['bleu']:.12f}" != f"{old_scores['bleu']:.12f}"
    assert "tok:char" in new_scores["signature"]
    assert {name: new_scores[name] for name in ("nll", "accuracy", "chrf")} == {
        name: old_scores[name] for name in ("nll", "accuracy", "chrf")
    }
    table = " ".join(printed(trained, "table", "sweep.name=twins").split())
    assert "BLEU: sacreBLEU's char" in table


def test_an_evaluation_of_an_earlier_version_is_read_and_evaluate_says_how_to_add_accuracy(
    trained: Path, twin: Path
) -> None:
    for name in ("dev", "test"):
        path = twin / "statistics" / f"{name}.jsonl"
        path.write_text(
            re.sub(r'"accuracy": [\d.e-]+, |"right": \d+, ', "", path.read_text("utf-8")), "utf-8"
        )
    output = " ".join(printed(trained, "evaluate", "twins/base-s1").split())
    assert "2 of 2 evaluations are of an earlier version without accuracy" in output
    fix = "move runs/twins/base-s1/statistics/dev.jsonl away, and type the same command again"
    assert fix in output
    (twin / "statistics" / "dev.jsonl").unlink()
    (line,) = evaluated(trained, "twins/base-s1", "--set", "dev")
    assert (line["decoded"], 0 < line["accuracy"] <= 1) == (True, True)


def test_a_plan_says_what_is_odd_about_its_text(trained: Path) -> None:
    files = [f"data.{name}=[{name}.txt,{name}.txt]" for name in ("train", "dev", "test")]
    languages = ["data.source=en", "data.target=de", "data.vocab_size=276"]
    output = " ".join(
        printed(trained, "plan", "sweep.name=odd", "data=files", *files, *languages).split()
    )
    assert "targets identical to their sources: train, dev, test" in output
