"""What a run holds besides its journal, and the page of its study: in memory, and once in a real MLflow."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from other_tasks import digits
from reported import reported
from studies_on_disk import DECODE, Store, begin, finish, report

from tracking.ledger import experiment_of
from tracking.replay import Replay
from tracking.report.written import report_page
from tracking.rows import table
from tracking.saved_view import TAG, view_id
from tracking.study import Study, Trial
from tracking.study_page import study_files
from tracking.table import to_markdown
from tracking.tracker import MemoryRun, MemoryTracker
from tracking.trial_folder import TrialFolder

LEDGERS = ("mlflow-runs.json", "mlflow-synced.json", "mlflow-sent.json")


class Counting(MemoryTracker):
    """The twin; it counts requests, and may refuse artifacts."""

    def __init__(self, experiment: str = "memory") -> None:
        super().__init__(experiment)
        self.requests, self.refused = list[str](), False

    def __getattribute__(self, name: str) -> Any:
        if name in ("log_params", "set_tags", "log_points", "log_dataset", "log_files", "set_experiment_tags"):
            self.requests.append(name)
            if name == "log_files" and self.refused:
                raise PermissionError("no artifacts here")
        return super().__getattribute__(name)


def trained(study: Study, trial: Trial, **dev: Any) -> None:
    """A finished trial with its configuration, a curve and translations."""
    folder = study.trial_folder(trial)
    attempt = begin(folder)
    groups: dict[str, Any] = {"model": {"h": 8}, "train": {"steps": 3, "seed": trial.seed}, "decode": DECODE}
    folder.config_path.write_text(yaml.safe_dump(groups | {"data": {"name": "synthetic", "mirror": None}}))
    folder.provenance_path.write_text(json.dumps({"commit": "abc", "data_fingerprint": "f" * 64}))
    for step, ppl in ((1, 9.0), (2, 4.0), (3, 5.0)):
        folder.report(attempt, step, {"train/loss": 1.0 / step, "dev/ppl": ppl}, checkpoint=step)
    folder.write_hypotheses("dev", ["Ein Satz.", "Noch <script>einer</script>."])
    finish(study, trial, attempt, 3, **dev)


def synced(study: Study, tracker: MemoryTracker) -> dict[str, MemoryRun]:
    """One pass of a new syncer. Returns the runs by row, and the study's own run."""
    done = Replay(study.folder, tracker, "memory").once()
    assert (done.problems, done.notices) == ((), ())
    return {
        run.tags.get("table3.row", run.tags.get("study", "")).partition(" ")[2]: run for run in tracker.runs.values()
    }


def values(run: MemoryRun, name: str) -> list[tuple[int, float]]:
    return [
        (point.step, point.value) for point in sorted(run.points, key=lambda p: (p.step, p.ts_ms)) if point.name == name
    ]


def test_a_run_has_its_curve_its_end_and_what_was_published(study: Study) -> None:
    for trial in study.trials[:2]:
        trained(study, trial, ppl=4.5 + (trial.row != "base"), bleu=30.123456)
    run = synced(study, MemoryTracker())["a_heads_1"]
    assert values(run, "val/ppl") == [(1, 9.0), (2, 4.0), (3, 5.0)]
    assert values(run, "best/ppl") == [(2, 4.0)]
    assert values(run, "last/ppl") == [(3, 5.0)]
    names = (
        "final/ppl",
        "final/bleu",
        "final/test/bleu",
        "delta/ppl",
        "delta/bleu",
        "published/ppl",
        "published/delta/ppl",
    )
    assert [values(run, name) for name in names] == [
        [(3, value)] for value in (5.5, 30.1235, 30.0, 1.0, 0.0, 5.29, 0.37)
    ]
    assert not [point.name for point in run.points if point.name.startswith("dev/")]


def test_a_difference_comes_with_bases_result_and_follows_it(study: Study) -> None:
    tracker = MemoryTracker()
    base, row = study.trials[:2]
    trained(study, row, bleu=28.0)
    assert values(synced(study, tracker)["a_heads_1"], "delta/bleu") == []
    trained(study, base, bleu=30.0)
    assert values(synced(study, tracker)["a_heads_1"], "delta/bleu") == [(3, -2.0)]
    finish(study, base, begin(study.trial_folder(base)), 3, bleu=27.0)
    assert values(synced(study, tracker)["a_heads_1"], "delta/bleu")[-1] == (3, 1.0)
    finish(study, base, begin(study.trial_folder(base)), 3, bleu=27.0, decode=DECODE | {"beam": 8})
    assert math.isnan(values(synced(study, tracker)["a_heads_1"], "delta/bleu")[-1][1]), "scored in another way"


def test_a_second_syncer_sends_nothing_and_without_ledgers_the_same(study: Study) -> None:
    for trial in study.trials:
        trained(study, trial)
    tracker = Counting(study.name)
    synced(study, tracker)
    points = {run_id: set(run.points) for run_id, run in tracker.runs.items()}
    tracker.requests.clear()
    synced(study, tracker)
    assert tracker.requests == []
    for name in LEDGERS:
        (study.folder / name).unlink()
    synced(study, tracker)
    assert {run_id: set(run.points) for run_id, run in tracker.runs.items()} == points


def test_a_run_with_earlier_names_gets_its_points_under_the_current_ones(study: Study) -> None:
    trained(study, study.trials[0])
    tracker = MemoryTracker()
    synced(study, tracker)
    (study.folder / "mlflow-sent.json").unlink()
    for run in tracker.runs.values():
        run.points.clear()
    assert values(synced(study, tracker)["base"], "val/ppl") == [(1, 9.0), (2, 4.0), (3, 5.0)]


def test_the_data_is_an_input_and_the_files_are_artifacts(study: Study) -> None:
    trained(study, study.trials[0])
    run = synced(study, MemoryTracker())["base"]
    (data,) = run.datasets
    assert (data.name, data.digest, json.loads(data.source)["fingerprint"]) == ("synthetic", "f" * 12, "f" * 64)
    assert set(run.files) == {"config.yaml", "provenance.json", "curve.csv", "samples.json"}
    assert run.files["curve.csv"].decode().splitlines()[:2] == ["step,train/loss,val/ppl", "1,1.0,9.0"]
    samples = json.loads(run.files["samples.json"])
    assert samples["columns"] == ["sample", "hypotheses"]
    assert samples["data"] == [["dev 001", "Ein Satz."], ["dev 002", "Noch <script>einer</script>."]]
    assert json.loads(run.tags["mlflow.loggedArtifacts"]) == [{"path": "samples.json", "type": "table"}]


def test_a_failed_run_tells_why(study: Study, folder: TrialFolder) -> None:
    attempt = begin(folder)
    folder.write_error("out of memory\n\nTraceback …")
    folder.end_attempt(attempt, "failed")
    run = synced(study, MemoryTracker())["base"]
    assert run.files["error.txt"].decode().startswith("out of memory")
    assert "FAILED: out of memory" in run.tags["mlflow.note.content"]


def test_a_note_tells_the_row_and_its_result(study: Study) -> None:
    trained(study, study.trials[0])
    trained(study, study.trials[1], ppl=5.0, bleu=29.0)
    note = synced(study, MemoryTracker())["a_heads_1"].tags["mlflow.note.content"]
    assert note.splitlines() == [
        f"**A, a_heads_1**, seed 1 of study {study.name}: change of a_heads_1.",
        "- PPL 5.00, +0.50 from base; published 5.29, +0.37.",
        "- BLEU 29.0, −1.0 from base; published 24.9, −0.9.",
        "- 63.046M parameters, 9.52e17 FLOPs, 1 h 01 min.",
    ]


def test_a_store_without_artifacts_gets_the_points_and_one_notice(study: Study) -> None:
    trained(study, study.trials[0])
    tracker = Counting()
    tracker.refused = True
    replay = Replay(study.folder, tracker, "memory")
    first, second = replay.once(), replay.once()
    assert (first.problems, second.notices) == ((), ())
    refused = "artifacts are not stored: PermissionError: no artifacts here"
    assert first.notices == (f"{refused}; fix that, then run `ablate sync`",)
    assert first.points > 0
    tracker.refused = False
    assert "config.yaml" in synced(study, tracker)["base"].files


def test_artifacts_come_after_the_points_of_all_trials(study: Study) -> None:
    for trial in study.trials:
        trained(study, trial)
    tracker = Counting()
    synced(study, tracker)
    last_points = max(place for place, name in enumerate(tracker.requests) if name == "log_points")
    assert last_points < tracker.requests.index("log_files")


def test_only_new_content_is_uploaded(study: Study) -> None:
    base = study.trials[0]
    trained(study, base)
    tracker = Counting()
    synced(study, tracker)
    for run in tracker.runs.values():
        run.files.clear()
    study.trial_folder(base).write_hypotheses("dev", ["Anders."])
    finish(study, base, begin(study.trial_folder(base)), 3, bleu=31.0)
    assert set(synced(study, tracker)["base"].files) == {"samples.json"}


def test_the_study_has_a_run_and_a_note_of_its_own(study: Study) -> None:
    trained(study, study.trials[0])
    tracker = MemoryTracker(study.name)
    synced(study, tracker)
    (own,) = [run for run in tracker.runs.values() if "study" in run.tags]
    assert "sweep.id" not in own.tags, "the comparison would show it as a row"
    assert own.status == "FINISHED"
    assert own.files["table.md"].decode() == to_markdown(study, table(study))
    assert own.files["table.csv"].startswith(b"row,group,change")
    note = tracker.tags["mlflow.note.content"]
    assert note.startswith(f"**{study.name}**: 3 rows; 1 of 3 trials finished; base: PPL 4.50, BLEU 30.0\n")
    assert "```\nablate sweep\n```" in note
    assert f"{TAG}{view_id(study.name)}" in tracker.tags
    assert experiment_of(study.folder, "memory") == tracker.experiment_id


def test_a_complete_study_keeps_its_report_and_figures_which_are_the_same_bytes_at_each_sync(tmp_path: Path) -> None:
    complete, tracker, again = reported(tmp_path / "complete"), MemoryTracker("complete"), MemoryTracker("again")
    synced(complete, tracker)
    (own,) = [run for run in tracker.runs.values() if "study" in run.tags]
    assert own.files["report.html"].decode() == report_page(complete)
    figures = [name for name in own.files if name.startswith("figures/") and name.endswith(".svg")]
    assert any("bleu" in name for name in figures)
    assert "tested against base" in own.files["table.md"].decode()
    for ledger in LEDGERS:
        (complete.folder / ledger).unlink()
    synced(complete, again)
    (second,) = [run for run in again.runs.values() if "study" in run.tags]
    assert second.files == own.files
    complete.trial_folder(complete.trials[-1]).result_path.unlink()
    assert set(study_files(complete)) == {"table.md", "table.csv"}, "a trial has no result"


def test_a_shared_experiment_keeps_its_own_note(study: Study) -> None:
    trained(study, study.trials[0])
    tracker = MemoryTracker("of several studies")
    synced(study, tracker)
    assert set(tracker.tags) == {f"{TAG}{view_id(study.name)}"}


def test_a_task_of_another_kind_has_the_same_pages(tmp_path: Path) -> None:
    study = digits(tmp_path / "numbers", 0.9, 0.92, 0.95)
    tracker = MemoryTracker("numbers")
    done = Replay(study.folder, tracker, "memory").once()
    assert (done.problems, done.notices) == ((), ())
    (wide,) = [run for run in tracker.runs.values() if run.tags.get("study.row") == "02 wide"]
    found = {point.name: point.value for point in wide.points}
    assert (found["final/accuracy"], found["delta/accuracy"], found["params"]) == (0.95, 0.05, 4810)
    assert wide.tags["mlflow.note.content"].splitlines()[1] == "- accuracy 0.950, +0.050 from base."
    assert (
        "| base | base | change of base | 0.910 ± 0.014 | 0.000 | 4.810K | 2 of 2 |"
        in tracker.tags["mlflow.note.content"]
    )


def test_a_real_store_holds_the_same(study: Study, store: Store) -> None:
    for trial in study.trials[:2]:
        trained(study, trial)
    first = Replay(study.folder, *store).once()
    again = Replay(study.folder, *store).once()
    assert (first.problems, first.notices, again.problems, again.points) == ((), (), (), 0)
    client = store[0].client
    run, *_ = client.search_runs([store[0].experiment_id], f"tags.`sweep.id` = '{study.name}' and tags.seed = '1'")
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {
        *("config.yaml", "provenance.json", "curve.csv", "samples.json"),
    }
    assert [each.dataset.digest for each in run.inputs.dataset_inputs] == ["f" * 12]
    assert run.data.metrics["final/bleu"] == 30.0
    tags = client.get_experiment(store[0].experiment_id).tags
    state = json.loads(json.loads(tags[f"{TAG}{view_id(study.name)}"])["state"])
    assert state["searchFilter"] == f"tags.`sweep.id` = '{study.name}'"


@pytest.mark.parametrize("damage", ["result.json", "provenance.json", "config.yaml", "attempts.jsonl"])
def test_a_damaged_trial_does_not_hold_back_the_pages_of_others(study: Study, damage: str) -> None:
    for trial in study.trials[:2]:
        trained(study, trial)
    (study.trial_folder(study.trials[0]).path / damage).write_text("{\n{\n{\n")
    tracker = MemoryTracker()
    done = Replay(study.folder, tracker, "memory").once()
    assert len(done.problems) == 1
    assert done.problems[0].startswith("base-s1: ")
    assert done.lasting
    assert any(
        "samples.json" in run.files for run in tracker.runs.values() if "a_heads" in run.tags.get("table3.row", "")
    )


def test_a_report_while_training_changes_no_page(study: Study, folder: TrialFolder) -> None:
    report(folder, begin(folder), range(1, 3), checkpoints=(2,))
    tracker = Counting()
    replay = Replay(study.folder, tracker, "memory")
    replay.once()
    tracker.requests.clear()
    report(folder, 1, range(3, 5), checkpoints=(4,))
    replay.once()
    assert tracker.requests == ["log_points"]
