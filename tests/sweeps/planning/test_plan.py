"""What a sweep would run: keys that change only with the weights, costs, and finished trials."""

import json
import re
from pathlib import Path

import pytest
from allelse_in_folder import allelse, contents, plan, refused
from finished_trials import finish

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.plan import Plan
from sweeps.planning.plan_record import study_with_plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.problems import RefusedError
from tracking.study import read_study, write_study

BASE = "sweep.rows=[base]"


def only(folder: Path, *overrides: str) -> PlannedTrial:
    (trial,) = plan(folder, BASE, *overrides).trials
    return trial


def key(folder: Path, *overrides: str) -> str:
    return only(folder, *overrides).trial.key


def refused_plan(folder: Path, *overrides: str) -> list[str]:
    return [
        problem.found
        for problem in refused(
            folder, *overrides, by=lambda overrides, here: plan(here, *overrides)
        )
    ]


def test_a_plan_shows_every_row_and_starts_nothing(tmp_path: Path) -> None:
    outcome = allelse(tmp_path, "plan")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert "20 of 20 trials" in outcome.stdout
    assert len(re.findall(r"\bto run\b", outcome.stdout)) == 21
    assert outcome.stdout.splitlines()[-1] == "Next: allelse sweep"
    assert contents(tmp_path) == []


def test_seeds_of_a_row_in_the_same_state_share_a_line(tmp_path: Path) -> None:
    overrides = ("sweep.rows=[base,big]", "sweep.seeds=[1,2,3]", "sweep.base_seeds=[5,4,3,2,1]")
    planned = plan(tmp_path, *overrides, f"paths.runs={tmp_path}/runs")
    finish(next(trial for trial in planned.trials if trial.name == "base-s2"))
    shown = allelse(tmp_path, "plan", *overrides).stdout
    lines = [re.split(r" {2,}", line.strip()) for line in shown.splitlines()]
    assert [(line[0], line[-1]) for line in lines if line[-1] in ("to run", "finished")] == [
        ("base", "to run"),
        ("base", "finished"),
        ("big", "to run"),
    ]
    assert [line[2] for line in lines if line[0] == "big"] == ["1 to 3"]
    first, second = (line for line in lines if line[0] == "base")
    assert (first[2], second[1]) == ("1, 3 to 5", "2"), "what the row changes is shown once"
    flops_of_one = planned.trials[0].costs.flops
    assert flops_of_one is not None
    assert float(first[5]) == pytest.approx(4 * flops_of_one, rel=0.01)
    assert "Sums over the seeds of a line: FLOPs" in shown


def test_a_plan_needs_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at the proxy: a download would fail, and the sums are declared."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    planned = json.loads(
        allelse(
            tmp_path, "plan", "--json", "data=multi30k", "scale=half", "sweep.seeds=[1,2]"
        ).stdout
    )
    assert [(trial["row"], trial["seed"]) for trial in planned[:3]] == [
        ("base", 1),
        ("base", 2),
        ("a_heads_1", 1),
    ]
    assert len(planned) == len({trial["key"] for trial in planned}) == 40
    assert all(re.fullmatch("[0-9a-f]{64}", trial["key"]) for trial in planned)
    assert all(
        trial["params"] > 0 and trial["flops"] > 0 and not trial["finished"] for trial in planned
    )
    assert contents(tmp_path) == []


def test_the_key_does_not_depend_on_where_and_how(tmp_path: Path) -> None:
    """Keys that only observe or score are listed in ``tests/record/test_keys.py``."""
    cluster = ("cluster=gpu", "cluster.workers=4", "cluster.address=auto")
    local = ("paths.runs=elsewhere", "paths.data=elsewhere", "data.mirror=elsewhere")
    names = ("sweep.name=mine", "sweep.max_failures=0", "scale.name=mine")
    tracking = ("tracking.uri=http://server:5000", "tracking.experiment=mine")
    assert key(
        tmp_path, *cluster, *local, "paths.checkpoints=s3://bucket/c", *names, *tracking
    ) == key(tmp_path)


def test_a_whole_number_is_the_same_number(tmp_path: Path) -> None:
    assert key(tmp_path, "model.p_drop=0") == key(tmp_path, "model.p_drop=0.0")


def test_the_key_depends_on_the_text_of_files_and_not_on_where_they_are(tmp_path: Path) -> None:
    def files(name: str, text: str) -> list[str]:
        (tmp_path / name).mkdir()
        for split in ("train", "dev", "test"):
            (tmp_path / name / f"{split}.en").write_text("a dog\n")
            (tmp_path / name / f"{split}.de").write_text(text)
        return [
            f"data.{split}=[{name}/{split}.en,{name}/{split}.de]"
            for split in ("train", "dev", "test")
        ]

    here = files("here", "ein Hund\n")
    elsewhere = files("there", "ein Hund\n")
    other_text = files("other", "ein Dackel\n")
    keys = [key(tmp_path, "data=files", *overrides) for overrides in (here, elsewhere, other_text)]
    assert keys[0] == keys[1] != keys[2]


def test_other_decoding_only_scores_again(tmp_path: Path) -> None:
    finish(only(tmp_path))
    scored_again = only(tmp_path, "decode.beam=1")
    assert (scored_again.finished, scored_again.state) == (False, "finished")
    outcome = allelse(tmp_path, "plan", BASE, "decode.beam=1")
    assert "to score again" in outcome.stdout
    assert (
        outcome.stdout.splitlines()[-1] == "Next: allelse sweep 'sweep.rows=[base]' decode.beam=1"
    )


def test_one_seed_of_every_row_comes_first_and_the_longest_of_a_seed(tmp_path: Path) -> None:
    planned = plan(
        tmp_path,
        "sweep.rows=[base,big,c_layers_2]",
        "sweep.seeds=[7,3]",
        f"paths.runs={tmp_path}/runs",
    )
    first = ["big-s7", "base-s7", "c_layers_2-s7"]
    second = ["big-s3", "base-s3", "c_layers_2-s3"]
    assert [trial.trial.name for trial in planned.pending] == [*first, *second]
    finish(next(trial for trial in planned.trials if trial.trial.name == "big-s7"))
    pending = [trial.trial.name for trial in planned.read_again().pending]
    assert pending == [*first[1:], *second], "a finished seed keeps its turn"


def test_a_folder_with_another_key_is_refused_naming_what_differs(tmp_path: Path) -> None:
    finish(only(tmp_path, "train.steps=50"))
    overrides = [BASE, "train.steps=70", "model.n_heads=4", "data.vocab_size=500"]
    (message,) = refused_plan(tmp_path, *overrides)
    for part in (
        "base-s1",
        "train.steps 50, now 70",
        "model.n_heads 8, now 4",
        "data.vocab_size 1000, now 500",
    ):
        assert part in message
    assert "warmup" not in message
    plan(tmp_path, *overrides, "sweep.name=another")


def record(folder: Path, command: str, *overrides: str) -> Plan:
    planned = plan(folder, *overrides)
    write_study(study_with_plan(planned, command.split()))
    return planned


def names(folder: Path) -> list[str]:
    return [trial.name for trial in read_study(folder / "runs/synthetic-tiny").trials]


def test_a_part_of_a_study_keeps_the_words_on_the_other_rows_sizes(tmp_path: Path) -> None:
    record(tmp_path, "allelse sweep", "sweep.rows=[base,e_learned_positions,c_layers_2]")
    partial_study = study_with_plan(
        plan_sweep(["sweep.rows=[base,c_layers_2]"], here=tmp_path), ["allelse", "sweep"]
    )
    sizes = {row["row"]: row["size"] for row in partial_study.rows}
    assert sizes == {"base": "", "e_learned_positions": "8% more parameters", "c_layers_2": ""}


def test_rows_and_seeds_added_later_join_the_study(tmp_path: Path) -> None:
    record(tmp_path, "allelse sweep first", "sweep.rows=[base,c_layers_2]")
    record(tmp_path, "allelse sweep second", "sweep.rows=[base,big,a_heads_1]", "sweep.seeds=[3,2]")
    assert names(tmp_path) == [
        *("base-s1", "base-s2", "base-s3", "a_heads_1-s2", "a_heads_1-s3"),
        *("c_layers_2-s1", "big-s2", "big-s3"),
    ]
    study = read_study(tmp_path / "runs/synthetic-tiny")
    assert set(study.cells) == {"base", "a_heads_1", "c_layers_2", "big"}
    assert [request["command"] for request in study.asked] == [
        "allelse sweep first",
        "allelse sweep second",
    ]
    assert all(re.match(r"\d{4}-\d\d-\d\dT", str(request["ts"])) for request in study.asked)


def of_sweep(folder: Path, *overrides: str) -> list[str]:
    return [planned.trial.name for planned in plan_sweep([*overrides], here=folder).trials]


def test_base_has_seeds_of_its_own_which_are_recorded_and_resumed(tmp_path: Path) -> None:
    """Planned in one command: they are no added seeds, and a new row gets those of the other
    rows."""
    words = ("sweep.name=wide", "sweep.seeds=[1,2]", "sweep.base_seeds=[1,2,3,4]")
    first = plan_sweep([*words, "sweep.rows=[base,a_heads_1]"], here=tmp_path)
    expected = ["base-s1", "base-s2", "base-s3", "base-s4", "a_heads_1-s1", "a_heads_1-s2"]
    assert [planned.trial.name for planned in first.trials] == expected
    write_study(study_with_plan(first, ["allelse", "sweep", *words]))
    assert read_study(first.folder).asked[0]["added"] == expected
    assert of_sweep(tmp_path, "sweep.name=wide") == expected
    assert of_sweep(tmp_path, *words) == expected
    assert of_sweep(tmp_path, "sweep.name=wide", "sweep.base_seeds=[3,4]")[:2] == [
        "base-s3",
        "base-s4",
    ]
    extended_plan = plan_sweep(
        ["sweep.name=wide", "sweep.rows=[c_layers_2]"], here=tmp_path, add=True
    )
    assert extended_plan.added == ("c_layers_2-s1", "c_layers_2-s2")
    with pytest.raises(RefusedError) as raised:
        plan_sweep(["sweep.name=other", "sweep.base_seeds=[1,1]"], here=tmp_path)
    assert [(problem.key, problem.found) for problem in raised.value.problems] == [
        ("sweep.base_seeds", "is [1, 1]")
    ]


def test_a_margin_is_stated_before_results_and_recorded(tmp_path: Path) -> None:
    words = ("sweep.name=stated", "sweep.rows=[base,a_heads_1]")
    first = plan_sweep([*words, "sweep.margin={bleu: 0.3}"], here=tmp_path)
    write_study(study_with_plan(first, ["allelse", "sweep", *words]))
    assert read_study(first.folder).margins == {"bleu": 0.3}
    assert of_sweep(tmp_path, *words, "sweep.margin={bleu: 0.3}") == ["base-s1", "a_heads_1-s1"]
    for typed, values in (
        (
            f"{words[0]} sweep.margin={{bleu:0.5}}",
            ["is {'bleu': 0.5}, but stated is recorded with {'bleu': 0.3}"],
        ),
        (
            "sweep.margin={blue:1,ppl:0}",
            ['names "blue", which is not a metric in the table', "has 0 for ppl"],
        ),
    ):
        with pytest.raises(RefusedError) as raised:
            plan_sweep(typed.split(), here=tmp_path)
        assert [problem.found for problem in raised.value.problems] == values
