"""What ``sweep.vary`` and ``sweep.grid`` may get wrong: one reason each, with its key, its place and the fix."""

from pathlib import Path

import pytest
from ablate_in_folder import contents, own
from typed import refusal, typed

# the text after `sweep.vary=`, the key of the reason, and words of the message
LISTS: list[tuple[str, str, list[str]]] = [
    ("{model.heads: [1]}", "model.heads", ["is not a key", "keys under model are", "did you mean model.n_heads?"]),
    ("{n_heads: [1]}", "n_heads", ["is not a key", "did you mean model.n_heads?"]),
    ("{modle.n_heads: [1]}", "modle.n_heads", ["is not a key", "did you mean model.n_heads?"]),
    ("{model.N_Heads: [1]}", "model.N_Heads", ["did you mean model.n_heads?"]),
    ("{train.lr: [2]}", "train.lr", ["multiplies the paper's learning rate", "did you mean train.lr_factor?"]),
    ("{dropout: [0.2]}", "dropout", ["did you mean model.p_drop?"]),
    ("{epochs: [3]}", "epochs", ["counts steps, not epochs"]),
    ("{seed: [1, 2]}", "seed", ["is not a key", "did you mean sweep.seeds?"]),
    ("{row: [big]}", "row", ["did you mean sweep.rows?"]),
    ("{train.seed: [1, 2]}", "train.seed", ["sweep.seeds=[1,2,3]"]),
    ("{scale.width: [2]}", "scale.width", ["is the same for all rows", "scale=NAME or scale.width=N"]),
    ("{scale: [half]}", "scale", ["scale=NAME"]),
    ("{cluster.workers: [1, 2]}", "cluster.workers", ["a row may change only model, train, decode, data"]),
    ("{sweep.name: [a, b]}", "sweep.name", ["a row may change only"]),
    ("{paths: {runs: [a]}}", "paths.runs", ["a row may change only"]),
    ("{data: [multi30k]}", "data", ["is a group of keys", "vary one of data.name"]),
    ("{8: [1]}", "8", ["is not a key"]),
    ("{model.n_heads: 4}", "model.n_heads", ["is 4", "must be a list of values", "did you mean model.n_heads: [4]?"]),
    ("{model.p_drop: null}", "model.p_drop", ["is null", "must be a list"]),
    ("{model.n_heads: []}", "model.n_heads", ["is an empty list", "at least one value"]),
    ("{model.n_heads: [4, 4]}", "model.n_heads", ["lists 4 twice", "each value once"]),
    ("{model.p_drop: [0.2, 0.20]}", "model.p_drop", ["lists 0.2 twice"]),
    ("{model.p_drop: [0, 0.0]}", "model.p_drop", ["twice"]),
    ("{model.n_heads: [1 4 16]}", "model.n_heads", ['lists "1 4 16" as one value', "model.n_heads: [1, 4, 16]?"]),
    ("{model.n_heads: [1; 4]}", "sweep.vary", ["sweep.vary={model.n_heads: [1, 4]}"]),
    ("{model.n_heads: range(1,4)}", "model.n_heads", ["must be a list of values, written out"]),
    ("{model.n_heads: [range(1,4)]}", "model.n_heads", ["lists a function"]),
    ("{model.n_heads: [{a: 1}]}", "model.n_heads", ["lists a group"]),
    ("{model.n_heads: [0]}", "model.n_heads", ["is 0", "must be a whole number between 1"]),
    ("{model.n_heads: [2.5]}", "model.n_heads", ["is 2.5", "must be a whole number"]),
    ("{model.n_heads: [true]}", "model.n_heads", ["is True", "must be a whole number"]),
    ("{model.n_heads: [null]}", "model.n_heads", ["is null", "must be a whole number"]),
    ("{model.n_heads: [many]}", "model.n_heads", ['is "many"', "must be a whole number"]),
    ("{train.steps: [2k]}", "train.steps", ['is "2k"', "did you mean 2000?"]),
    ("{model.p_drop: [1.0]}", "model.p_drop", ["is 1.0", "below 1"]),
    ("{model.positions: [lerned]}", "model.positions", ["sinusoids, learned", "did you mean learned?"]),
    ("{model.attention_bias: [1]}", "model.attention_bias", ["true or false", "did you mean true?"]),
    ("{model.d_ff: ['${model.nope}']}", "model.d_ff", ["cannot be resolved"]),
    ("{model.d_ff: [2052]}", "model.d_ff", ["is 2052, which scale.width=8 does not divide", "a multiple of 8"]),
    ("{train.warmup_steps: [10]}", "train.warmup_steps", ["does not scale to a whole number", "a multiple of 20"]),
    ("{train.precision: [fp32]}", "train.precision", ["would not differ from base"]),
    ("{data.train: [[a, b]]}", "data.train", ["must be null unless data=files"]),
    ("{data.train: [a]}", "data.train", ["a list, each a string"]),
    ("{model.n_heads: [8]}", "sweep.vary", ["makes no row: base has model.n_heads 8"]),
    ("{model.n_heads: [1], model.n_heads: [4]}", "sweep.vary", ["twice", "sweep.vary={model.n_heads: [1, 4]}"]),
    ("{train.steps: [200000]}", "steps_200000", ["changes only train.steps", "choose another scale"]),
    ("{decode.beam: [8]}", "decode.beam", ["same model as base", "ablate evaluate base-s1 decode.beam=8"]),
    ("{}", "sweep.vary", ["is empty", "sweep.vary='{model.n_heads: [1, 4]}'"]),
    ("", "sweep.vary", ["is empty"]),
    ("null", "sweep.vary", ["is empty"]),
    ("model.n_heads", "sweep.vary", ["is model.n_heads", "keys with lists of values"]),
    ("[model.n_heads]", "sweep.vary", ["must be keys with lists of values"]),
    ("4", "sweep.vary", ["is 4", "must be keys with lists of values"]),
]

# what is typed after `sweep.vary=`, and what is offered
SPELLINGS: list[tuple[str, str]] = [
    ("{model.n_heads: 1,4}", "{model.n_heads: [1, 4]}"),
    ("{model.n_heads: 1 4}", "model.n_heads: [1, 4]"),
    ("{model.n_heads: (1,4)}", "{model.n_heads: [1, 4]}"),
    ("{model.n_heads=[1,4]}", "{model.n_heads: [1, 4]}"),
    ("{model.n_heads: [1,4],}", "{model.n_heads: [1, 4]}"),
    ("{model.n_heads: [1,4,]}", "{model.n_heads: [1, 4]}"),
    ("{model.n_heads: [1,,4]}", "{model.n_heads: [1, 4]}"),
    ("{model.n_heads: [1,4]", "{model.n_heads: [1, 4]}"),
    ("{model.n_heads: [1,4}", "{model.n_heads: [1, 4]}"),
    ("{model.n_heads: 1,4]}", "{model.n_heads: [1, 4]}"),
    ("model.n_heads: [1,4]", "{model.n_heads: [1, 4]}"),
    ("model.n_heads:[1,4]", "{model.n_heads: [1, 4]}"),
    ("model.n_heads=[1,4]", "{model.n_heads: [1, 4]}"),
    ("model.n_heads=1,4", "{model.n_heads: [1, 4]}"),
    ('{"model.n_heads": [1, 4]}', "{model.n_heads: [1, 4]}"),
    ("{'model.n_heads': [1, 4]}", "{model.n_heads: [1, 4]}"),
    ("{model.n_heads: [1,4] model.p_drop: [0.2]}", "{model.n_heads: [1, 4], model.p_drop: [0.2]}"),
    ("{model.n_heads: [1,4]; model.p_drop: [0.2]}", "{model.n_heads: [1, 4], model.p_drop: [0.2]}"),
    ("{model.n_heads: 1, 4, model.p_drop: 0.2}", "{model.n_heads: [1, 4], model.p_drop: [0.2]}"),
    ("{model.n_heads: [1,4]},{model.p_drop: [0.2]}", "{model.n_heads: [1, 4], model.p_drop: [0.2]}"),
]


@pytest.mark.parametrize(("text", "key", "words"), LISTS, ids=[case[0] for case in LISTS])
def test_a_list_is_refused_with_its_key(tmp_path: Path, text: str, key: str, words: list[str]) -> None:
    message = refusal(tmp_path, "plan", f"sweep.vary={text}")
    assert message.startswith("Refused, for 1 reason"), message
    assert f" {key} (command line) " in message
    assert [word for word in words if word not in message] == [], message
    assert contents(tmp_path) == []


@pytest.mark.parametrize(("text", "offered"), SPELLINGS, ids=[case[0] for case in SPELLINGS])
@pytest.mark.parametrize("maker", ["vary", "grid"])
def test_the_nearest_spelling_is_offered(tmp_path: Path, maker: str, text: str, offered: str) -> None:
    message = refusal(tmp_path, "plan", f"sweep.{maker}={text}")
    assert message.startswith("Refused, for 1 reason: "), message
    assert offered in message


@pytest.mark.parametrize(
    ("arguments", "offered"),
    [
        (["sweep.vary={model.n_heads:", "[1,4]}"], '"sweep.vary={model.n_heads: [1, 4]}"'),
        (["sweep.vary=model.n_heads:[1", "sweep.vary=4]"], '"sweep.vary={model.n_heads: [1, 4]}"'),
        (["sweep.grid=a.b:[1", "sweep.grid=4]", "sweep.grid=c:[2]"], '"sweep.grid={a.b: [1, 4], c: [2]}"'),
        (["sweep.vary.model.n_heads=1,4"], '"sweep.vary={model.n_heads: [1, 4]}"'),
        (["model.n_heads=1,4"], '"sweep.vary={model.n_heads: [1, 4]}"'),
        (["hydra.sweeper.params={model.n_heads: [1, 4]}"], '"sweep.vary={model.n_heads: [1, 4]}"'),
        (["vary={model.n_heads: [1, 4]}"], '"sweep.vary={model.n_heads: [1, 4]}"'),
        (["+sweep.vary={model.n_heads: [1, 4]}"], '"sweep.vary={model.n_heads: [1, 4]}"'),
        (["sweep.vari={model.n_heads: [1, 4]}"], "sweep.vary"),
    ],
)
def test_what_a_shell_splits_or_hydra_sweeps_is_offered_as_lists(
    tmp_path: Path, arguments: list[str], offered: str
) -> None:
    assert f"did you mean {offered}?" in refusal(tmp_path, "plan", *arguments)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    lists = "sweep.vary={model.heads: [1], model.d_ff: [], model.p_drop: [0.2, 0.2, 3], model.d_k: [0, -1]}"
    message = refusal(tmp_path, "plan", lists, "sweep.grid={model.d_v: many}", "decode.beam=0", "scale=huge")
    assert "for 9 reasons" in message, message
    for words in ("model.heads", "empty list", "0.2 twice", "is 3.0", "is 0;", "is -1", '"many"', "decode.beam"):
        assert words.rstrip(";") in message


def test_an_override_of_a_key_that_is_varied_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, "plan", "sweep.vary={model.n_heads: [1, 4]}", "model.n_heads=2")
    assert "for 1 reason: model.n_heads (command line) is changed by rows n_heads_1, n_heads_4" in message


def test_a_made_row_needs_a_name_of_its_own(tmp_path: Path) -> None:
    own(tmp_path, "row/n_heads_4", "# @package _global_\nrow: {group: F}\nmodel: {n_heads: 2}\n")
    message = refusal(tmp_path, "plan", "sweep.vary={model.n_heads: [1, 4]}")
    assert "for 1 reason: sweep.vary (command line) makes row n_heads_4, but a file has that name" in message
    assert "rename conf/row/n_heads_4.yaml" in message


def test_too_many_rows_are_refused(tmp_path: Path) -> None:
    many = ",".join(map(str, range(1, 40)))
    message = refusal(tmp_path, "plan", f"sweep.grid={{model.n_heads: [{many}], model.d_k: [{many}]}}")
    assert "sweep.grid (command line) makes 1521 rows must make at most 1000" in message


# the file's line of each problem
FILE = """name: heads
seeds: [1]
max_failures: 0
vary:
  model.heads: [1]
  model:
    d_ff: [0]
    d_k: 8
  model.n_heads: [2, 2]
grid: 3
"""


def test_lists_in_a_file_are_refused_with_their_lines(tmp_path: Path) -> None:
    own(tmp_path, "sweep/mine", FILE)
    message = refusal(tmp_path, "plan", "sweep=mine")
    assert "for 5 reasons" in message, message
    for key, line in (
        ("model.heads", 5),
        ("model.d_ff", 7),
        ("model.d_k", 8),
        ("model.n_heads", 9),
        ("sweep.grid", 10),
    ):
        assert f" {key} (conf/sweep/mine.yaml:{line}) " in message


def test_a_sweep_file_needs_rows_or_lists(tmp_path: Path) -> None:
    own(tmp_path, "sweep/mine", "name: heads\nseeds: [1]\nmax_failures: 0\nvary: {}\n")
    assert "sweep.rows" in refusal(tmp_path, "plan", "sweep=mine")


def test_lists_are_harmless_for_verbs_that_read(tmp_path: Path) -> None:
    done = typed(tmp_path, "status", "sweep.vary={model.n_heads: [1, 4]}")
    assert "has no such study" in " ".join(done.output.split())
