"""`allelse import`: how columns are read, what is refused, and what an observed study can do."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typed import printed, refusal, refused_for

from allelse import load

WANDB = """"Name","State","User","Created","Runtime","d_model","h","lr","seed","bleu","train_loss"
"brisk-sun-9","finished","ann","2026-11-03T10:00:00.000Z","61","256","4","0.1","2","25.31","1.11"
"dry-sea-8","finished","ann","2026-11-03T09:00:00.000Z","62","256","4","0.1","1","25.42","1.12"
"calm-oak-7","failed","ann","2026-11-03T08:00:00.000Z","5","512","8","0.01","2","","1.93"
"cold-elm-6","finished","ann","2026-11-03T07:00:00.000Z","60","512","8","0.01","1","26.91","1.14"
"blue-fox-5","finished","ann","2026-11-03T06:00:00.000Z","63","512","8","0.1","2","27.28","1.15"
"aged-ant-4","finished","ann","2026-11-03T05:00:00.000Z","64","512","8","0.1","1","27.19","1.16"
"""
WORDS = ("import", "runs.csv", "--base", "lr=0.1", "--base", "h=8", "--metric", "bleu:up")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs.csv").write_text(WANDB, "utf-8")
    return tmp_path


def answer(folder: Path, *words: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(printed(folder, *words, "--json"))
    return content


def write(folder: Path, *lines: dict[str, Any]) -> None:
    with (folder / "runs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


def test_an_export_of_wandb_is_read_as_it_is(folder: Path) -> None:
    imported = answer(folder, *WORDS)
    rows = {row["change"]: row["seeds"] for row in imported["rows"]}
    assert rows == {"base": [1, 2], "lr 0.01": [1], "d_model 256, h 4": [1, 2]}
    assert imported["guessed"] == ["seed"]
    assert imported["settings"] == ["d_model", "h", "lr"]
    assert imported["left_out"] == [{"run": "calm-oak-7", "why": "failed"}]
    assert imported["runs"]["lr_0.01-s1"] == "cold-elm-6"
    frames = load(folder / "runs" / "runs")
    assert list(frames.trials["seconds"]) == [64, 63, 60, 62, 61]
    assert list(frames.scores["value"]) == [27.19, 27.28, 26.91, 25.42, 25.31]


def test_every_output_says_that_allelse_did_not_run_it(folder: Path) -> None:
    printed(folder, *WORDS)
    line = "Observed: not run by allelse"
    for words in (
        ("table",),
        *(("table", "--format", form) for form in ("md", "tex", "html")),
        ("status",),
        ("compare", "base", "d_model_256_h_4"),
    ):
        assert line in printed(folder, *words), words
    printed(folder, "report", "--no-figures")
    page = (folder / "runs" / "runs" / "report.html").read_text()
    assert page.count(line) >= 2
    printed(folder, "publish", "sweep.name=runs")
    assert line in (folder / "studies" / "runs" / "table.md").read_text()
    assert (folder / "studies" / "runs" / "observed.json").is_file()


@pytest.mark.parametrize("verb", ["sweep", "train", "plan"])
def test_verbs_that_train_refuse_it_by_name(verb: str, folder: Path) -> None:
    printed(folder, *WORDS)
    assert "is runs, which was imported" in refusal(folder, verb, "sweep.name=runs")


def test_metrics_seed_and_base_are_guessed_and_that_is_said(folder: Path) -> None:
    imported = answer(folder, "import", "runs.csv")
    assert imported["guessed"] == ["seed", "metrics", "base"]
    assert [metric["name"] for metric in imported["metrics"]] == ["bleu"]
    assert {row["change"] for row in imported["rows"]} == {"base", "lr 0.01", "d_model 256, h 4"}
    output = printed(folder, "import", "runs.csv")
    assert output.count("(guessed)") == 3


def test_every_wrong_name_is_refused_at_once(folder: Path) -> None:
    refused_for(
        folder,
        [
            '--seed names "sed", which is not a column … did you mean seed',
            '--metric names "blue", which is not a column … did you mean bleu',
            "--metric is h, and its name doesn't say",
        ],
        *("import", "runs.csv", "--seed", "sed", "--metric", "blue:up", "--metric", "h"),
    )
    assert not (folder / "runs").exists()
    for reason, *words in (
        ("--base is lr=7, but no finished run has it … 0.1, 0.01", "--base", "lr=7"),
        ('--base names "rate", which is not a column', "--base", "rate=7"),
        ("--experiment is for sources that start with mlflow:", "--experiment", "x"),
    ):
        refused_for(folder, [reason], "import", "runs.csv", *words)
    refused_for(folder, ["SOURCE is gone.csv, which does not exist"], "import", "gone.csv")
    refused_for(folder, ["SOURCE is mlflow.db … must be a CSV file"], "import", "mlflow.db")
    missing = "SOURCE is sqlite:///gone.db, and gone.db does not exist"
    refused_for(folder, [missing], "import", "mlflow:sqlite:///gone.db")
    assert not (folder / "gone.db").exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "must have at least two columns"),
        ("a,b\n", "has no run"),
        ("a,a\n1,2\n", "has two columns named a"),
        ("a,b\n1,2,3\n", "has 3 cells, but the head has 2"),
        ("lr,note\n1,2\n", "--metric is missing, and no column has the name of a score"),
    ],
)
def test_files_that_hold_no_runs_are_refused(text: str, fault: str, folder: Path) -> None:
    (folder / "runs.csv").write_text(text)
    message = refusal(folder, "import", "runs.csv")
    assert fault in message
    assert "Nothing was imported." in message


def test_it_is_repeated_with_more_runs_and_replaces_no_other_study(folder: Path) -> None:
    printed(folder, *WORDS)
    first = json.loads((folder / "runs" / "runs" / "study.json").read_text())
    text = WANDB + WANDB.splitlines()[-1].replace("aged-ant-4", "new").replace('"1","27', '"3","27')
    (folder / "runs.csv").write_text(text, "utf-8")
    imported = answer(folder, *WORDS)
    assert imported["rows"][0]["seeds"] == [1, 2, 3]
    second = json.loads((folder / "runs" / "runs" / "study.json").read_text())
    assert second["identity"] == first["identity"]
    assert len(list((folder / "runs" / ".trash").iterdir())) == 1
    assert "the whole study" in printed(folder, "restore")
    assert [command["saw_results"] for command in second["asked"]] == [False, True]
    assert second["asked"][1]["added"] == ["base-s3"]
    printed(folder, *WORDS)
    third = json.loads((folder / "runs" / "runs" / "study.json").read_text())
    assert third["asked"] == second["asked"], "the source has no other runs"
    (folder / "other.csv").write_text(WANDB, "utf-8")
    words = ("import", "other.csv", *WORDS[2:], "sweep.name=runs")
    refused_for(
        folder, ["sweep.name is runs, and … has a study of … runs.csv of that name"], *words
    )
    assert not list((folder / "runs").glob(".runs.*"))


def test_a_run_that_is_gone_is_not_called_as_another_one(folder: Path) -> None:
    runs = ["first,1,0.51", "second,1,0.52", "third,2,0.61", "fourth,2,0.62"]
    for count in (4, 3):
        (folder / "runs.csv").write_text("\n".join(["name,lr,acc", *runs[4 - count :]]), "utf-8")
        printed(folder, "import", "runs.csv", "--base", "lr=1")
    study = json.loads((folder / "runs" / "runs" / "study.json").read_text())
    before, since = study["asked"]
    assert before["added"] == ["base-s1", "lr_2-s1", "lr_2-s2"], "second has first's seed now"
    assert (since["added"], since["dropped"]) == ([], ["first"])


def test_rows_can_be_named_by_a_column(folder: Path) -> None:
    runs = [
        {"model": model, "lr": lr, "wd": wd, "seed": seed, "acc": acc}
        for model, lr, wd in (("baseline", 0.1, 0), ("slow", 0.01, 0), ("slower", 0.001, 0.5))
        for seed, acc in ((1, lr + 0.511), (2, lr + 0.522))
    ]
    write(folder, *runs)
    imported = answer(folder, "import", "runs.csv", "--row", "model", "--base", "baseline")
    assert [row["row"] for row in imported["rows"]] == ["base", "slow", "slower"]
    (doubt,) = imported["doubts"]
    assert doubt["kind"] == "hidden-difference"
    assert doubt["rows"] == ["slower"]
    assert "lr 0.001, not 0.1 and wd 0.5, not 0" in doubt["text"]


def test_a_label_beside_settings_is_no_second_change(folder: Path) -> None:
    """Of wide and deep each differs in one setting, of big in two."""
    changes = {
        "base": {},
        "wide": {"d_ff": 4},
        "deep": {"layers": 12},
        "big": {"d_ff": 4, "layers": 12},
    }
    runs = [
        {"model": model, "d_ff": 2, "layers": 6, **change, "seed": seed, "acc": seed + 0.1}
        | {"lr-Adam": 1e-4 / (seed + len(model) + 7 * index)}
        for index, (model, change) in enumerate(changes.items())
        for seed in (13, 42, 87)
    ]
    write(folder, *runs)
    imported = answer(folder, "import", "runs.csv", "--base", "model=base", "--metric", "acc")
    assert [row["seeds"] for row in imported["rows"]] == [[13, 42, 87]] * 4
    assert "lr-Adam" in imported["unused"]
    assert [doubt["rows"] for doubt in imported["doubts"]] == [["model_big_d_ff_4_layers_12"]]


def test_a_score_that_is_not_finite_diverged_and_is_in_no_mean(folder: Path) -> None:
    write(folder, *({"lr": 1, "seed": seed, "loss": loss} for seed, loss in ((1, 0.5), (2, "inf"))))
    printed(folder, "import", "runs.csv", "--metric", "loss:down")
    (row,) = json.loads(printed(folder, "table", "--format", "json"))
    assert (row["loss"], row["diverged"], row["seeds"]) == (0.5, [2], 1)


def test_runs_without_seeds_are_numbered_and_that_is_a_doubt(folder: Path) -> None:
    write(folder, *({"lr": lr, "loss": lr + 0.123} for lr in (1, 1, 2, 2)))
    imported = answer(folder, "import", "runs.csv", "--metric", "loss", "--base", "lr=1")
    assert [row["seeds"] for row in imported["rows"]] == [[1, 2], [1, 2]]
    assert imported["seed"] is None
    assert "missing-seeds" in [doubt["kind"] for doubt in imported["doubts"]]


def test_an_import_of_csv_loads_neither_torch_nor_ray_nor_mlflow(folder: Path) -> None:
    program = (
        "import sys; sys.argv[0] = 'allelse'\n"
        "from sweeps.cli import app\n"
        "try: app()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print([name for name in ('torch', 'ray', 'mlflow') if name in sys.modules])"
    )
    for words in (WORDS, ("table",)):
        process = subprocess.run(
            [sys.executable, "-P", "-c", program, *words],
            cwd=folder,
            env=os.environ,
            capture_output=True,
            text=True,
            check=True,
        )
        assert process.stdout.splitlines()[-1] == "[]"


def test_a_study_needs_its_source_no_more(folder: Path) -> None:
    """The study holds all that its outputs need."""
    printed(folder, *WORDS)
    (folder / "runs.csv").unlink()
    assert "lr 0.01" in printed(folder, "table")
    assert "runs.csv" in (folder / "runs" / "runs" / "observed.json").read_text()


def test_a_fault_has_the_number_of_its_line_in_the_file(folder: Path) -> None:
    text = 'name,acc\n\n"two\nlines",0.5\n\nc,0.5,1\n'
    (folder / "runs.csv").write_text(text)
    assert "runs.csv:6" in refusal(folder, "import", "runs.csv")
    (folder / "runs.csv").write_text("name,acc\n\na,90.1%\n\nb,0.92\n")
    assert "runs.csv:5" in refusal(folder, "import", "runs.csv")


def test_a_direction_is_proposed_only_if_the_name_has_one(folder: Path) -> None:
    (folder / "runs.csv").write_text("model,seed,error_scale,h\na,1,0.5,1\nb,1,0.6,2\n")
    message = refusal(folder, "import", "runs.csv", "--metric", "error_scale")
    assert "did you mean error_scale:down?" in message
    assert "such as acc:up, or acc:up:test with its set" in message
    assert "did you mean" not in refusal(folder, "import", "runs.csv", "--metric", "h")


def test_a_verb_on_weights_says_that_an_imported_run_has_none(folder: Path) -> None:
    printed(folder, *WORDS)
    message = refusal(folder, "evaluate", "runs/base-s1")
    assert "is a trial of runs, which was imported" in message
