"""Every verb on a study with a damaged file: it names the file, prints no traceback, and runs the other trial."""

import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from allelse_in_folder import contents, plan
from rich.console import Console
from small_text import TEXT
from studies import SMALL
from typed import refusal, typed
from typer.testing import Result

from sweeps.planning.plan import PlannedTrial, recorded
from sweeps.running.opening import repair
from sweeps.running.recorder import Recorder
from sweeps.worker.events import Evaluated, Event, Finished, Report, Started
from tracking.study import write_study
from tracking.trial import statistics_name, statistics_text

Damage = Callable[[Path], None]
ROWS = "sweep.rows=[base,e_learned_positions]"
LOOKED_AT = ("result.json", "config.yaml", "provenance.json", "attempts.jsonl", "journal.jsonl")  # by `status`
OF_TRIAL = (*LOOKED_AT, "statistics/dev.jsonl")
SHORT = [*SMALL, *TEXT, "sweep.name=synthetic-tiny", "train.steps=20", "train.checkpoint_every=10"]


def cut(path: Path) -> None:
    """As after a full disk or an interrupted copy."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00{]garbage\n" * 3)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def looped(path: Path) -> None:
    """A symbolic link to itself, which the system refuses to read."""
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def broken_disk(path: Path) -> None:
    """The file exists, but every read fails with EIO, as on a faulty disk or server."""
    path.unlink(missing_ok=True)
    path.symlink_to("/proc/self/mem")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of two trials that look finished."""
    cwd = tmp_path_factory.mktemp("written").resolve()
    planned = plan(cwd, ROWS)
    for trial in planned.trials:
        _finish(trial)
    write_study(recorded(planned, ["allelse", "sweep"]))
    return cwd


@pytest.fixture
def cwd(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "copy"))


def _finish(planned: PlannedTrial) -> None:
    scores = {"nll": 1.5, "ppl": 4.5, "bleu": 30.0, "chrf": 50.0, "bleu_paper": 30.0, "signature": "nrefs:1"}
    scores |= {"decode": vars(planned.settings.trial.decode)}
    costs = {"params": planned.costs.params, "flops": 1e12, "seconds": 9.0}
    recorder = Recorder(planned)
    attempt = recorder.assignment().attempt
    recorder.begin()
    steps = planned.settings.trial.train.steps
    head = {"key": planned.trial.key, "step": steps, "scores": scores}
    texts = {
        "hypotheses/dev.txt": "a\nb\n",
        statistics_name("dev"): statistics_text(head, [{"nats": 1.0}, {"nats": 2.0}]),
    }
    events: tuple[Event, ...] = (
        Started("cpu", 1),
        *(Report(step, {"train/loss": 1.0}) for step in (1, 2, steps)),
        Evaluated(steps, "dev", scores, texts),
        Finished(steps, costs, {"dev": scores, "test": scores}),
    )
    for event in events:
        assert recorder.take(attempt, event)


def base(cwd: Path) -> Path:
    return cwd / "runs" / "synthetic-tiny" / "base-s1"


def calm(done: Result, code: int = 0) -> Result:
    """A verb that ended with this code and without a traceback."""
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize(("name", "damage"), [*((name, garbage) for name in LOOKED_AT), ("journal.jsonl", folder)])
def test_status_table_and_plan_name_a_trials_damaged_file(cwd: Path, name: str, damage: Damage) -> None:
    damage(base(cwd) / name)
    first, second = json.loads(calm(typed(cwd, "status", "--json")).stdout)
    assert name in first["note"]
    assert (second["state"], second["note"]) == ("finished", "")
    state = "damaged" if name == "result.json" else "finished"
    assert first["state"] == state
    rows = json.loads(calm(typed(cwd, "table", "--format", "json")).stdout)
    assert (rows[0]["seeds"], rows[1]["ppl"]) == (int(state == "finished"), 4.5)
    planned = json.loads(calm(typed(cwd, "plan", ROWS, "--json")).stdout)
    assert [each["finished"] for each in planned] == [state == "finished", True]


def test_a_damaged_study_is_refused_by_name(cwd: Path) -> None:
    garbage(base(cwd).parent / "study.json")
    for verb in (["status"], ["sweep", ROWS], ["translate", "base-s1"]):
        assert "study.json: not a study" in refusal(cwd, *verb)


def test_an_unconfirmed_configuration_is_refused(cwd: Path) -> None:
    """Another trial may have been trained there."""
    (base(cwd).parent / "study.json").unlink()
    (base(cwd) / "result.json").unlink()
    garbage(base(cwd) / "config.yaml")
    assert "config.yaml" in refusal(cwd, "sweep", ROWS)
    garbage(base(cwd) / "result.json")
    assert "config.yaml" in refusal(cwd, "sweep", ROWS)


@pytest.mark.parametrize(
    ("name", "fault"), [*((name, looped) for name in (*OF_TRIAL, "error.txt")), ("result.json", broken_disk)]
)
def test_an_unreadable_file_of_a_trial_is_named_and_left_alone(cwd: Path, name: str, fault: Damage) -> None:
    path = base(cwd) / name
    fault(path)
    before = contents(base(cwd))
    first, second = json.loads(calm(typed(cwd, "status", "--json")).stdout)
    assert (f"{path.name} cannot be read: " in first["note"]) == (name != "statistics/dev.jsonl")
    assert (second["state"], second["note"]) == ("finished", "")
    assert json.loads(calm(typed(cwd, "table", "--format", "json")).stdout)[1]["ppl"] == 4.5
    planned = json.loads(calm(typed(cwd, "plan", ROWS, "--json")).stdout)
    assert planned[0]["state"] == ("damaged" if name == "result.json" else "finished")
    repair(plan(cwd, ROWS), Console(file=StringIO()))
    assert contents(base(cwd)) == before
    if name == "result.json":  # the only trial that could run
        for verb in ("sweep", "train"):
            assert f"result.json {path}: cannot be read: " in refusal(cwd, verb, *([ROWS] if verb == "sweep" else []))
        assert contents(base(cwd)) == before


@pytest.fixture(scope="module")
def trained_here(tmp_path_factory: pytest.TempPathFactory, furnish: Callable[[Path], Path]) -> Path:
    """A trained trial, to be copied and damaged."""
    cwd = furnish(tmp_path_factory.mktemp("trained_here").resolve())
    calm(typed(cwd, "train", *SHORT))
    return cwd


@pytest.fixture
def pair(trained_here: Path, tmp_path: Path) -> Path:
    """A trained trial, and a copy under another seed's name that the tests damage."""
    cwd = Path(shutil.copytree(trained_here, tmp_path / "pair"))
    study = base(cwd).parent
    shutil.copytree(study / "base-s1", study / "base-s2")
    content = json.loads((study / "study.json").read_text())
    content["trials"].append(content["trials"][0] | {"seed": 2})
    (study / "study.json").write_text(json.dumps(content))
    return cwd


@pytest.mark.parametrize(("name", "damage"), [("result.json", folder), ("config.yaml", cut)])
def test_a_model_whose_files_are_damaged_is_refused_by_name(pair: Path, name: str, damage: Damage) -> None:
    damage(base(pair).with_name("base-s2") / name)
    for verb in (["evaluate"], ["translate"], ["export", "--to", "safetensors"]):
        said = refusal(pair, *verb, "base-s2")
        assert f"base-s2/{name}" in said
        assert "`allelse sweep`" in said
    both = refusal(pair, "evaluate", "base-s2", "nobody-s1")
    assert name in both
    assert "nobody-s1" in both


@pytest.mark.slow
def test_damaged_statistics_are_computed_again(pair: Path) -> None:
    trial = base(pair).with_name("base-s2")
    whole = (trial / "statistics" / "dev.jsonl").read_text()
    garbage(trial / "statistics" / "dev.jsonl")
    done = calm(typed(pair, "evaluate", "base-s2", "base-s1", "--json"))
    assert [line["decoded"] for line in json.loads(done.stdout)] == [True, False, False, False]
    assert (trial / "statistics" / "dev.jsonl").read_text().splitlines()[1:] == whole.splitlines()[1:]
    assert (trial / "statistics" / "dev.jsonl.damaged").exists()


@pytest.mark.slow
def test_no_damaged_file_of_a_trial_stops_it_and_its_result_is_written_again(trained_here: Path) -> None:
    path, provenance = base(trained_here) / "result.json", base(trained_here) / "provenance.json"
    before = json.loads(path.read_text())
    cut(path)
    garbage(path.with_name("journal.jsonl"))
    provenance.write_bytes(b"nonsense\n" + provenance.read_bytes()[:40])
    path.with_name("error.txt").mkdir()
    said = " ".join(calm(typed(trained_here, "train", *SHORT)).stdout.split())
    assert "result.json:1 is damaged" in said
    assert "resumes from its last checkpoint" in said
    for name in ("result.json", "provenance.json", "error.txt"):
        assert f"{name}.damaged" in said
        assert path.with_name(f"{name}.damaged").exists()
    after = json.loads(path.read_text())
    assert [after[name] for name in ("key", "step", "scores")] == [before[name] for name in ("key", "step", "scores")]
    assert after["attempt"] == before["attempt"] + 1
    assert json.loads(provenance.read_text())["data_identity"]
    calm(typed(trained_here, "sync", "sweep.name=synthetic-tiny"))  # its journal is another one
    assert "MLflow: up to date" in calm(typed(trained_here, "status")).stdout
