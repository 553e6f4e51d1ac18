"""Bad input is refused before anything starts: every error at once, each with its key, place and remedy."""

from collections.abc import Callable
from pathlib import Path

import pytest
from allelse_in_folder import allelse, contents, own, own_row, refused
from typed import refusal

from sweeps.planning.compose import compose_row, compose_sweep
from sweeps.planning.composition import Composition
from sweeps.schema import Problem


def the_one(folder: Path, override: str, by: Callable[[list[str], Path], Composition] = compose_row) -> Problem:
    (problem,) = refused(folder, override, by=by)
    assert problem.place == "command line"
    return problem


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("model.n_headz=4", "model.n_heads"),
        ("modle.n_heads=4", "model.n_heads"),
        ("train.step=4", "train.steps"),
        ("+model.d_kk=4", "model.d_k"),
        ("sweep.seed=4", "sweep.seeds"),
        ("scal=half", "scale"),
        ("qqqqqq=1", None),
        ("decode.beam.width=3", "decode.beam"),
    ],
)
def test_an_unknown_key_gets_the_nearest_suggested(tmp_path: Path, override: str, nearest: str | None) -> None:
    problem = the_one(tmp_path, override)
    assert problem.key == override.split("=")[0].lstrip("+")
    assert (problem.found, problem.nearest) == ("is not a key", nearest)


@pytest.mark.parametrize(
    ("override", "found", "allowed"),
    [
        ("model.n_heads=many", 'is "many"', "a whole number between 1 and 2147483647"),
        ("model.n_heads=2.5", "is 2.5", "a whole number between 1 and 2147483647"),
        ("model.d_model=65", "is 65", "must be even with sinusoids"),
        ("model.p_drop=1.5", "is 1.5", "a number of at least 0 and below 1"),
        ("model.positions=rotary", 'is "rotary"', "one of sinusoids, learned"),
        ("train.steps=1e3", "is 1000.0", "a whole number between 1 and 2147483647"),
        ("train.tokens_per_batch=100", "is 100", "must be at least model.max_positions (512)"),
        ("train.label_smoothing=0.9999", "is 0.9999", "must be at most 0.999"),
        (
            "decode.average_checkpoints=4",
            "is 4",
            "times decode.average_every (200), it must be at most train.steps (600)",
        ),
        ("data.train=[a,b]", "", "must be null unless data=files"),
        ("data.vocab_size=2", "is 2", "a whole number between 8 and 16777216"),
        ("sweep.name=a/b", 'is "a/b"', 'without "/"'),
        ("model.d_model", "is not key=value", "train.steps=100"),
        ("scale=huge", "conf/scale/ has no such file", "half, paper, tiny"),
        ("row=bass", 'is "bass", but conf/row/ has no such file', "base, big"),
        ("sweep.rows=[base]", "is for `allelse sweep`", "row=NAME"),
        ("sweep.seeds=[2]", "is for `allelse sweep`", "train.seed=N"),
        ("model.d_ff=${model.nope}", "'model.nope' not found", "a key that exists"),
        ("model.d_ff='${'", "", ""),
        ("tracking.uri=http://?x", "", "must be http(s)://HOST:PORT"),
    ],
)
def test_a_value_that_is_not_allowed(tmp_path: Path, override: str, found: str, allowed: str) -> None:
    problem = the_one(tmp_path, override)
    assert problem.key == (override if "is not key" in problem.found else override.split("=")[0].lstrip("~"))
    assert found in problem.found
    assert allowed in problem.allowed


def test_a_user_s_own_data_needs_its_files(tmp_path: Path) -> None:
    problems = refused(tmp_path, "data=files", "data.dev=[only one]", by=compose_row)
    assert [problem.key for problem in problems] == ["data.train", "data.dev", "data.test"]


def test_a_scale_that_does_not_divide_names_the_values(tmp_path: Path) -> None:
    problems = refused(tmp_path, "scale=paper", "scale.width=3", "scale.depth=4", "scale.steps=7", by=compose_row)
    found = {(problem.key, problem.found, problem.place) for problem in problems}
    assert found == {
        (f"scale.{name}", f"is {by}", "command line") for name, by in (("width", 3), ("depth", 4), ("steps", 7))
    }
    allowed = " ".join(problem.allowed for problem in problems)
    for value in ("d_model, which is 512", "d_k, which is 64", "n_layers, which is 6", "steps, which is 100000"):
        assert value in allowed


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("sweep.rows=[base,bass]", "sweep.rows"),
        ("sweep.rows=[base,big,base]", "sweep.rows"),
        ("sweep.rows=[]", "sweep.rows"),
        ("sweep.seeds=[]", "sweep.seeds"),
        ("sweep.seeds=[1,1]", "sweep.seeds"),
        ("sweep.seeds=[-1]", "sweep.seeds"),
        ("row=big", "row"),
    ],
)
def test_bad_rows_and_seeds_of_a_sweep(tmp_path: Path, override: str, key: str) -> None:
    overrides = [override] if key == "sweep.rows" else [override, "sweep.rows=[base]"]
    problems = refused(tmp_path, *overrides)
    assert {(problem.key, problem.place) for problem in problems} == {(key, "command line")}


def test_a_key_that_a_selected_row_changes_cannot_be_overridden(tmp_path: Path) -> None:
    problems = refused(tmp_path, "sweep.rows=[base,a_heads_1,c_ff_1024,big]", "model.n_heads=4")
    found = " ".join(problem.found for problem in problems)
    assert {problem.key for problem in problems} == {"model.n_heads"}
    assert [row in found for row in ("base", "a_heads_1", "c_ff_1024", "big")] == [False, True, False, True]
    (own,) = refused(tmp_path, "row=a_heads_1", "model.n_heads=1", by=compose_row)
    assert own.key == "model.n_heads", "also where the value is the row's"
    rows = compose_sweep(["sweep.rows=[base,c_ff_1024,c_layers_2]", "model.n_heads=4"], tmp_path).rows
    assert {row.settings.trial.model.n_heads for row in rows} == {4}


def test_an_error_in_a_file_is_reported_with_its_line(tmp_path: Path) -> None:
    own_row(tmp_path, "model:\n  n_heads: many\n  d_fff: 12\ntrain: {seed: 1.5}\nmodell: {}\n")
    problems = refused(tmp_path, "sweep.rows=[base,mine]", "decode.beam=0")
    assert {(problem.key, problem.place) for problem in problems} == {
        ("model.n_heads", "conf/row/mine.yaml:4"),
        ("model.d_fff", "conf/row/mine.yaml:5"),
        ("train.seed", "conf/row/mine.yaml:6"),
        ("modell", "conf/row/mine.yaml:7"),
        ("decode.beam", "command line"),
    }


@pytest.mark.parametrize(
    ("body", "line", "found"),
    [
        (b"model: {d_ff: 8} # \xe4\n", ":3", "is not plain YAML: it is not UTF-8 text"),
        (b"model: {d_ff: 8\n", ":4", "is not plain YAML"),
        (b"model: {d_ff: 8, d_ff: 16}\n", ":3", "cannot be composed: found duplicate key d_ff"),
        (b"model: {d_ff: 1:30}\n", ":3", "is 1:30, which YAML reads as 90"),
        (b"modle: {d_ff: 8}\n", ":3", "is not a key a row sets only row, model, train, decode, data"),
        (b"hydra: {}\n", ":3", "is set by a row"),
    ],
)
def test_a_file_whose_content_is_not_what_it_looks_like(tmp_path: Path, body: bytes, line: str, found: str) -> None:
    path = own_row(tmp_path, "")
    path.write_bytes(path.read_bytes() + body)
    said = refusal(tmp_path, "plan", "sweep.rows=[base,mine]")
    assert said.startswith("Refused, for 1 reason:")
    assert f"(conf/row/mine.yaml{line}) {found}" in said


def test_a_row_without_its_header_is_one_mistake(tmp_path: Path) -> None:
    path = own_row(tmp_path, "model: {d_ff: 64}\n")
    path.write_text(path.read_text("utf-8").removeprefix("# @package _global_\n"), "utf-8")
    (problem,) = refused(tmp_path, "sweep.rows=[base,mine]")
    assert (problem.found, problem.place) == ('lacks "# @package _global_"', "conf/row/mine.yaml:1")


def test_the_file_of_an_option_may_lack_keys_and_a_scale_s_may_not_unset_a_group(tmp_path: Path) -> None:
    own(tmp_path, "data/mine", "name: files\n")
    assert {problem.place for problem in refused(tmp_path, "data=mine")} == {"conf/data/mine.yaml:1"}
    scale = "# @package _global_\nscale: {name: odd, width: 1, depth: 1, steps: 1}\nmodel: null\n"
    own(tmp_path, "scale/odd", scale)
    assert "model (conf/scale/odd.yaml:3) is None" in refusal(tmp_path, "plan", "scale=odd", "sweep.rows=[base,big]")


def test_an_error_in_the_files_of_a_sweep_is_reported_with_its_line(tmp_path: Path) -> None:
    own(tmp_path, "sweep/mine", "name: null\nseeds: [1, 1]\nmax_failures: 3\nrows: [base, nope, base]\n")
    problems = refused(tmp_path, "sweep=mine")
    assert [(problem.key, problem.place) for problem in problems] == [
        ("sweep.rows", "conf/sweep/mine.yaml:4"),
        ("sweep.rows", "conf/sweep/mine.yaml:4"),
        ("sweep.seeds", "conf/sweep/mine.yaml:2"),
    ]


def test_the_place_is_the_file_that_sets_the_wrong_value(tmp_path: Path) -> None:
    own_row(tmp_path, "train: {warmup_steps: 10}\n")
    scale = "scale: {name: mine, width: 1, depth: 1, steps: 1}\ntrain: {warmup_steps: few}\n"
    own(tmp_path, "scale/mine", f"# @package _global_\n{scale}")
    places = {problem.place for problem in refused(tmp_path, "sweep.rows=[mine]", "scale=mine")}
    assert places == {"conf/scale/mine.yaml:3"}


@pytest.mark.parametrize(
    "arguments", [["plan", "sweep.rows=[base]"], ["sweep"], ["train", "row=base"], ["status", "sweep.rows=[base]"]]
)
def test_a_refusal_ends_with_2_and_leaves_nothing(tmp_path: Path, arguments: list[str]) -> None:
    done = allelse(tmp_path, *arguments, "model.n_headz=4")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean model.n_heads?" in done.stderr
    assert ("Nothing was started." in done.stderr.splitlines()) == (arguments[0] != "status")
    assert contents(tmp_path) == []


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    own_row(tmp_path, "model:\n  n_heads: many\n")
    own(tmp_path, "row/big", "# mine\n")
    before = contents(tmp_path)
    rows = "sweep.rows=[base,c_ff_1024,bass,big,mine]"
    values = ["model.n_headz=4", "decode.beam=0", "model.p_drop=1.5", "model.d_ff=8", "scale=huge"]
    done = allelse(tmp_path, "sweep", rows, *values, "~train.steps", "scale.depth=1,2", "what", "scale.width=3")
    assert done.returncode == 2
    for part in (
        *("model.n_headz (command line)", "decode.beam (command line)", "model.p_drop (command line)"),
        *("model.d_ff (command line) is changed by rows c_ff_1024, big"),
        *('scale (command line) is "huge"', "train.steps (command line) cannot be removed"),
        *("scale.depth (command line) lists several", "what (command line)", "scale.width (command line)"),
        *('sweep.rows (command line) is "bass"', 'model.n_heads (conf/row/mine.yaml:4) is "many"'),
        "row/big.yaml (conf/row/big.yaml) shadows",
    ):
        assert part in done.stderr
    assert done.stderr.count("command line) is 1.5") == 1, "an error of every row is reported once"
    assert done.stderr.startswith("Refused, for ")
    assert done.stderr.splitlines()[-1] == "Nothing was started."
    assert contents(tmp_path) == before
