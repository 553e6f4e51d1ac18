"""What a user's own scale may get wrong: one refusal each, with its line, what is allowed and the fix."""

from pathlib import Path

import pytest
from ablate_in_folder import own, own_row
from typed import refusal, typed

HEAD = "# @package _global_\n"
SCALE = "scale: {name: mine, width: 2, depth: 1, steps: 10}\n"
FILE = "conf/scale/mine.yaml"
ROWS = "sweep.rows=[base,c_width_256,c_ff_1024,d_dropout_20,big]"

# what stands below the header and `scale:` (lines 1 and 2); the key or name, its line, and words of the message
BODIES: list[tuple[str, str, int, list[str]]] = [
    ("model:\n\td_ff: 3\n", "mine", 4, ["has a tab", "indent with spaces"]),
    ("train: {warmup_steps: \n", "mine", 4, ["must be valid YAML"]),
    ("train: {log_every: 8, log_every: 16}\n", "train.log_every", 3, ["is given twice, first in line 3", "keep one"]),
    ("train: {lr_factor: !!float 1}\n", "mine", 3, ["has the tag !!float"]),
    ("train: &m {log_every: 8}\nmodel: *m\n", "mine", 4, ["repeats a group by *m"]),
    ("train: {<<: {log_every: 8}}\n", "train", 3, ["takes keys by <<"]),
    ("defaults: [tiny]\n", "defaults", 3, ["is not supported in conf/scale/"]),
    ("train.log_every: 8\n", "train.log_every", 3, ["has a dot", "write train: {log_every: 8}"]),
    ("train: {warmup_steps: 010}\n", "train.warmup_steps", 3, ["is 010, which YAML reads as 8"]),
    ("train: {warmup_steps: few}\n", "train.warmup_steps", 3, ['is "few"', "must be a whole number"]),
    ("train: {warmup_steps: 0}\n", "train.warmup_steps", 3, ["is 0", "between 1"]),
    ("train: {warmup: 100}\n", "train.warmup", 3, ["is not a key", "did you mean train.warmup_steps?"]),
    ("train: {lr: 0.3}\n", "train.lr", 3, ["is not a key", "did you mean train.lr_factor?"]),
    ("train: {precision: fp16}\n", "train.precision", 3, ["must be one of fp32, bf16"]),
    ("model: {p_drop: 2}\n", "model.p_drop", 3, ["is 2", "below 1"]),
    ("model: {d_ff: '${model.nope}'}\n", "model.d_ff", 3, ["cannot be resolved"]),
    ("modell: {d_ff: 8}\n", "modell", 3, ["is not a key", "did you mean model?"]),
    ("train: {seed: 3}\n", "train.seed", 3, ["is set by a scale", "sweep.seeds=[1,2,3]"]),
    ("row: {group: F}\n", "row", 3, ["is set by a scale", "a scale may set only model, train, decode, data"]),
    ("cluster: {workers: 2}\n", "cluster", 3, ["a scale may set only"]),
    ("paths:\n  runs: elsewhere\n", "paths", 3, ["a scale may set only"]),
    ("sweep: {seeds: []}\n", "sweep", 3, ["a scale may set only"]),
    ("model: {d_model: 511}\n", "scale.width", 2, ["is 2", "must divide model.d_model, which is 511"]),
    ("train: {tokens_per_batch: 100}\n", "train.tokens_per_batch", 3, ["at least model.max_positions (512)"]),
]

# the group `scale` itself, in line 2
DIVISORS: list[tuple[str, str, int, list[str]]] = [
    ("", "scale", 1, ["is missing", "must be given: scale: {name: mine, depth: 2"]),
    ("scale:\n", "scale", 2, ["must be a group of keys"]),
    ("scale: tiny\n", "scale", 2, ["is 'tiny'", "must be a group of keys"]),
    ("scale: {name: mine, width: 2, depth: 1}\n", "scale.steps", 2, ["is missing", "steps: 1}"]),
    ("scale: {width: 2, depth: 1, steps: 1}\n", "scale.name", 2, ["is missing"]),
    ("scale: {name: tiny, width: 2, depth: 1, steps: 1}\n", "scale.name", 2, ["is tiny", "must be mine"]),
    ("scale: {name: mine, widht: 2, depth: 1, steps: 1}\n", "scale.widht", 2, ["did you mean scale.width?"]),
    ("scale: {name: mine, width: 2, depth: 1, steps: 1, heads: 2}\n", "scale.heads", 2, ["keys under scale are name"]),
    ("scale: {name: mine, width: 0, depth: 1, steps: 1}\n", "scale.width", 2, ["is 0", "between 1"]),
    ("scale: {name: mine, width: 2.5, depth: 1, steps: 1}\n", "scale.width", 2, ["is 2.5", "a whole number"]),
    ('scale: {name: mine, width: "2", depth: 1, steps: 1}\n', "scale.width", 2, ['is "2"', "did you mean 2?"]),
    ("scale: {name: mine, width: null, depth: 1, steps: 1}\n", "scale.width", 2, ["is null"]),
    ("scale: {name: mine, width: [2], depth: 1, steps: 1}\n", "scale.width", 2, ["is [2]"]),
    ("scale: {name: mine, width: 2, depth: 1, steps: few}\n", "scale.steps", 2, ['is "few"', "or null"]),
    ("scale: {name: mine, width: 2, depth: 1, steps: 7}\n", "scale.steps", 2, ["is 7", "train.steps, which is 100000"]),
    (
        "scale: {name: mine, width: 3, depth: 1, steps: 1}\n",
        "scale.width",
        2,
        ["is 3", "must divide model.d_model, which is 512, model.d_ff, which is 2048, model.d_k"],
    ),
    ("scale: {name: mine, width: 2, depth: 4, steps: 1}\n", "scale.depth", 2, ["is 4", "model.n_layers, which is 6"]),
]


def expect(message: str, key: str, line: int, words: list[str]) -> None:
    assert message.startswith(f"Refused, for 1 reason: {key} ({FILE}:{line}) "), message
    assert [word for word in words if word not in message] == [], message
    assert message.endswith("Nothing was started.")


@pytest.mark.parametrize(("body", "key", "line", "words"), BODIES, ids=[repr(case[0])[:40] for case in BODIES])
def test_a_scale_is_refused_with_its_line(tmp_path: Path, body: str, key: str, line: int, words: list[str]) -> None:
    own(tmp_path, "scale/mine", HEAD + SCALE + body)
    expect(refusal(tmp_path, "plan", "scale=mine", ROWS), key, line, words)


@pytest.mark.parametrize(("text", "key", "line", "words"), DIVISORS, ids=[repr(case[0])[:60] for case in DIVISORS])
def test_divisors_are_refused_with_their_line(tmp_path: Path, text: str, key: str, line: int, words: list[str]) -> None:
    own(tmp_path, "scale/mine", HEAD + text + "train: {log_every: 10}\n")
    expect(refusal(tmp_path, "plan", "scale=mine", ROWS), key, line, words)


def test_all_problems_of_a_scale_are_told_at_once(tmp_path: Path) -> None:
    text = "scale: {name: tiny, widht: 2, depth: 0}\ntrain: {seed: 2, warmup: 3, log_every: 010}\nrow: {group: F}\n"
    own(tmp_path, "scale/mine", HEAD + text)
    message = refusal(tmp_path, "plan", "scale=mine", "sweep.rows=[base]")
    keys = ("scale.name", "scale.widht", "scale.depth", "scale.steps", "train.seed", "train.warmup", "train.log_every")
    assert f"for {len(keys) + 1} reasons" in message, message
    for key in (*keys, "row"):
        assert f" {key} ({FILE}:" in message, message


def test_a_row_that_an_own_scale_cannot_keep_is_refused_by_the_row_s_line(tmp_path: Path) -> None:
    own(tmp_path, "scale/mine", HEAD + "scale: {name: mine, width: 16, depth: 3, steps: 10}\n")
    own_row(tmp_path, "model: {d_k: 8, n_layers: 4}\n")
    message = refusal(tmp_path, "plan", "scale=mine", "sweep.rows=[base,mine]")
    assert "for 2 reasons" in message
    assert "model.d_k (conf/row/mine.yaml:3) is 8, which scale.width=16 does not divide" in message
    assert "model.n_layers (conf/row/mine.yaml:3) is 4, which scale.depth=3 does not divide" in message
    assert "must be a multiple of 3, or choose another scale" in message


def test_an_own_scale_sets_and_divides(tmp_path: Path) -> None:
    own(tmp_path, "scale/mine", HEAD + SCALE + "train: {warmup_steps: 100}\ndecode: {beam: 1}\n")
    shown = typed(tmp_path, "config", "scale=mine").stdout
    for line in ("steps: 10000", "warmup_steps: 100", "d_model: 256", "n_layers: 6", "beam: 1"):
        assert f"  {line}\n" in shown
