"""Bad input is refused before anything starts: every error at once, each with its key, place and
remedy."""

import shlex
from pathlib import Path

import pytest
from allelse_in_folder import ROW_HEAD, allelse, contents, own
from composed_rows import composed_sweep
from typed import refusal, refused_for

# what is typed, and each reason of the refusal: its parts in their order
TYPED: list[tuple[str, list[str]]] = [
    (
        "train model.n_headz=4",
        ["model.n_headz (command line) is not a key … did you mean model.n_heads?"],
    ),
    (
        "train modle.n_heads=4",
        ["modle.n_heads (command line) is not a key … did you mean model.n_heads?"],
    ),
    ("train train.step=4", ["train.step (command line) is not a key … did you mean train.steps?"]),
    ("train +model.d_kk=4", ["model.d_kk (command line) is not a key … did you mean model.d_k?"]),
    ("train sweep.seed=4", ["sweep.seed (command line) is not a key … did you mean sweep.seeds?"]),
    ("train scal=half", ["scal (command line) is not a key … did you mean scale?"]),
    (
        "train qqqqqq=1",
        ["qqqqqq (command line) is not a key `allelse config` shows every key Nothing"],
    ),
    (
        "train decode.beam.width=3",
        ["decode.beam.width (command line) is not a key … did you mean decode.beam?"],
    ),
    (
        "train model.n_heads=many",
        ['model.n_heads (command line) is "many" must be a whole number between 1 and 2147'],
    ),
    (
        "train model.n_heads=2.5",
        ["model.n_heads (command line) is 2.5 must be a whole number between 1 and 2147"],
    ),
    ("train model.d_model=65", ["model.d_model (command line) is 65 must be even with sinusoids"]),
    (
        "train model.p_drop=1.5",
        ["model.p_drop (command line) is 1.5 must be a number of at least 0 and below 1"],
    ),
    (
        "train model.positions=rotary",
        ['model.positions (command line) is "rotary" must be one of sinusoids, learned'],
    ),
    (
        "train train.steps=1e3",
        ["train.steps (command line) is 1000.0 must be a whole number between 1 and 2147483647"],
    ),
    (
        "train train.tokens_per_batch=9",
        ["train.tokens_per_batch (command line) is 9 must be at least model.max_pos"],
    ),
    (
        "train train.label_smoothing=0.9999",
        ["train.label_smoothing (command line) is 0.9999 must be at most 0.999"],
    ),
    (
        "train decode.average_checkpoints=4",
        ["(command line) is 4 must be at most 2: decode.average_every is 200, train.steps 400"],
    ),
    (
        "train data.train=[a,b]",
        ["data.train (command line) is ['a', 'b'] must be null unless data=files"],
    ),
    (
        "train data.vocab_size=2",
        ["data.vocab_size (command line) is 2 must be a whole number between 8 and 16777216"],
    ),
    ("train sweep.name=a/b", ['sweep.name (command line) is "a/b" … without "/"']),
    (
        "train model.d_model",
        ["model.d_model (command line) is not key=value … did you mean model.d_model=VALUE?"],
    ),
    (
        "train Base",
        ["Base (command line) is not key=value … must look like … did you mean row=base?"],
    ),
    (
        "train scale=huge",
        [
            'scale (command line) is "huge", but conf/scale/ has no such file … half, paper, '
            "quarter, tiny"
        ],
    ),
    (
        "train row=bass",
        ['row (command line) is "bass", but conf/row/ has no such file … did you mean row=base?'],
    ),
    (
        "train sweep.rows=[base]",
        ["sweep.rows (command line) is for `allelse sweep` … did you mean row=base?"],
    ),
    (
        "train sweep.seeds=[2]",
        ["sweep.seeds (command line) is for `allelse sweep` … did you mean train.seed=2?"],
    ),
    (
        "train 'model.d_ff=${model.nope}'",
        ["model.d_ff (command line) … 'model.nope' not found … a key that exists"],
    ),
    ("train 'model.d_ff=${'", ["model.d_ff=${ (command line) is not key=value"]),
    ("train tracking.uri=http://?x", ["tracking.uri (command line) … must be http(s)://HOST:PORT"]),
    (
        "train data=files 'data.dev=[only one]'",
        [
            "data.train (conf/data/files.yaml:6) is null must be [source file, target file]",
            "data.dev (command line) is ['only one']",
        ],
    ),
    (
        "train scale=paper scale.width=3 scale.depth=4 scale.steps=7",
        [
            "scale.depth (command line) is 4 must divide model.n_layers, which is 6",
            (
                "scale.width (command line) is 3 must divide model.d_model, "
                "which is 512 … model.d_k, which is 64"
            ),
            "scale.steps (command line) is 7 must divide train.steps, which is 100000",
        ],
    ),
    (
        "train row=a_heads_1 model.n_heads=1",
        ["model.n_heads (command line) is changed by row a_heads_1"],
    ),
    (
        "train model.n_heads=1,4",
        ["model.n_heads (command line) lists several … only `plan` and `sweep` take several"],
    ),
    (
        "train 'sweep.vary={model.n_heads: [1, 4]}'",
        ["sweep.vary (command line) makes rows … row=n_heads_1"],
    ),
    (
        "train 'sweep.vary={model.n_heads: [1, 4]}' row=big",
        ["sweep.vary (command line) makes rows … row=n_heads_1"],
    ),
    (
        "train 'sweep.vary={model.n_heads: [1, 4]}' row=n_heads_5",
        ["row (command line) … did you mean n_heads_4?"],
    ),
    ("plan sweep.rows=[base,bass]", ['sweep.rows (command line) is "bass" … did you mean base?']),
    ("plan sweep.rows=[base,big,base]", ["sweep.rows (command line) lists base 2 times"]),
    ("plan sweep.rows=[]", ["sweep.rows (command line) is [] must be a list of rows"]),
    (
        "plan sweep.seeds=2",
        ["sweep.seeds (command line) is 2 must be a list, each a whole number … did you mean [2]?"],
    ),
    ("plan sweep.seeds=[]", ["sweep.seeds (command line) is [] must list at least one seed"]),
    (
        "plan sweep.seeds=[-1]",
        ["sweep.seeds (command line) is [-1] … a whole number between 0 and 2147483647"],
    ),
    ("plan row=big sweep.rows=[base]", ["row (command line) and sweep.rows are both given"]),
    (
        "plan row=big,big train.seed=1,1",
        [
            "sweep.rows (command line) lists big 2 times",
            "sweep.seeds (command line) is [1, 1] … each seed once",
        ],
    ),
    (
        "plan sweep.rows=[base,a_heads_1,c_ff_1024,big] model.n_heads=4",
        ["model.n_heads (command line) is changed by rows a_heads_1, big remove the override"],
    ),
    ("plan hydra/launcher=joblib", ["hydra/launcher (command line) … cluster=NAME"]),
    ("plan hydra.run.dir=out", ["hydra.run.dir (command line) … paths.runs"]),
    (
        "plan +model.n_heads=4",
        ["model.n_heads (command line) … remove the + did you mean model.n_heads=4?"],
    ),
    ("plan ++sweep.name=a", ["sweep.name (command line) … remove the +"]),
    ("plan ~train.steps", ["train.steps (command line) cannot be removed set another value"]),
    (
        "plan data@train=files",
        ["data@train (command line) … remove @train did you mean data=files?"],
    ),
    (
        "plan scale=tiny,half",
        ["scale (command line) lists several values … one value for all rows"],
    ),
    (
        "plan 'model.p_drop=interval(0,1)'",
        ["model.p_drop (command line) is an interval … range(1,4)"],
    ),
    (
        "plan data=files data.train=[a,b],[c,d] data.dev=[a,b] data.test=[a,b]",
        ["data.train (command line) is null in base, which every row is compared with"],
    ),
    (
        "plan 'sweep.vary=[{}]'",
        ["sweep.vary (command line) is [{}] must be keys with lists of values"],
    ),
    ("plan sweep.vary=", ["sweep.vary (command line) is empty"]),
    (
        "plan 'sweep.vary=[{model.n_heds: 4}]'",
        ["model.n_heds (command line) … did you mean model.n_heads?"],
    ),
    ("status decode.beam=8", ["decode.beam (command line) is not used by a verb that only reads"]),
    ("table decode.beam=8", ["decode.beam (command line) is not used by a verb that only reads"]),
    ("rm decode.beam=8", ["decode.beam (command line) is not used by a verb that only reads"]),
]
MINE = "plan sweep.rows=[base,mine]"
GLOBAL = "# @package _global_\n"
SETS = "is set by a row a row sets only row, model, train, decode, data"
VANISHES = "is fp32, but at scale tiny the row would not differ from base … remove it"
# what is typed, below the two lines that begin conf/row/mine.yaml, and each reason
ROWS: list[tuple[str, str, list[str]]] = [
    (
        f"{MINE} decode.beam=0",
        "model:\n  n_heads: many\n  d_fff: 12\ntrain: {seed: 1.5}\nmodell: {}\n",
        [
            'model.n_heads (conf/row/mine.yaml:4) is "many"',
            "model.d_fff (conf/row/mine.yaml:5) is not a key",
            "train.seed (conf/row/mine.yaml:6) is set by a row",
            "train.seed (conf/row/mine.yaml:6) is 1.5",
            (
                "modell (conf/row/mine.yaml:7) is not a key a row sets only row, "
                "model … did you mean model?"
            ),
            "decode.beam (command line) is 0",
        ],
    ),
    (
        MINE,
        "model: {d_ff: 8} # \udce4\n",
        ["mine (conf/row/mine.yaml:3) is not plain YAML: it is not UTF-8 text"],
    ),
    (MINE, "model: {d_ff: 8\n", ["mine (conf/row/mine.yaml:4) is not plain YAML"]),
    (
        MINE,
        "model: {d_ff: 8, d_ff: 16}\n",
        ["(conf/row/mine.yaml:3) cannot be composed: found duplicate key d_ff"],
    ),
    (
        MINE,
        "defaults: [base, bog]\n",
        ['(conf/row/mine.yaml:3) builds on row "bog", which does not exist … did you mean big?'],
    ),
    (
        MINE,
        "model: {d_ff: 1:30}\n",
        ["model.d_ff (conf/row/mine.yaml:3) is 1:30, which YAML reads as 90"],
    ),
    (MINE, "hydra: {}\n", [f"hydra (conf/row/mine.yaml:3) {SETS}"]),
    (
        MINE,
        "scale:\n  width: 2\n  depth: 1\nmodel: {d_ff: 1024}\n",
        [f"scale (conf/row/mine.yaml:3) {SETS}"],
    ),
    (
        MINE,
        "train: {seed: 3}\n",
        ["train.seed (conf/row/mine.yaml:3) is set by a row … sweep.seeds=[1,2,3]"],
    ),
    ("train row=mine", "train: {seed: 3}\n", ["train.seed (conf/row/mine.yaml:3) is set by a row"]),
    (
        MINE,
        "train: {precision: fp32, label_smoothing: 0}\n",
        [f"train.precision (conf/row/mine.yaml:3) {VANISHES}"],
    ),
    (
        MINE,
        "train: {warmup_steps: 10}\n",
        ["(conf/row/mine.yaml:3) is 10 … to a whole number … a multiple of 20"],
    ),
    (
        MINE,
        "train: {tokens_per_batch: 10000}\n",
        ["(conf/row/mine.yaml:3) is 200 … at least model.max_positions (250)"],
    ),
    (
        f"{MINE} 'sweep.vary=[{{model.n_heads: 4, model.d_ff: 1024}}]'",
        "model: {d_ff: 1024, n_heads: 4}\n",
        [
            "sweep.rows (command line) lists d_ff_1024-n_heads_4 and mine, "
            "which would train the same model"
        ],
    ),
    (
        f"{MINE} train.label_smoothing=0.3",
        "train: {label_smoothing: 0.2}\n",
        ["train.label_smoothing (command line) is changed by row mine"],
    ),
]
# what is typed, another file in conf/ with its text, and each reason
FILES: list[tuple[str, str, str, list[str]]] = [
    (
        MINE,
        "row/mine",
        "row: {group: F}\nmodel: {d_ff: 64}\n",
        ['mine (conf/row/mine.yaml:1) lacks "# @package _glob'],
    ),
    (
        "plan data=mine",
        "data/mine",
        "name: files\nmirror: null\n",
        ["(conf/data/mine.yaml:1) is missing"] * 6,
    ),
    (
        "plan scale=odd sweep.rows=[base,big]",
        "scale/odd",
        f"{GLOBAL}scale: {{name: odd, width: 1, depth: 1, steps: 1}}\nmodel: null\n",
        ["model (conf/scale/odd.yaml:3) is None must be a group of keys"],
    ),
    (
        "plan scale=few sweep.rows=[base,b_key_16]",
        "scale/few",
        (
            f"{GLOBAL}scale: {{name: few, width: 1, depth: 1, steps: 1}}\ntrain: {{warmup_steps: "
            "few}\n"
        ),
        ['train.warmup_steps (conf/scale/few.yaml:3) is "few"'],
    ),
    (
        "plan sweep=mine",
        "sweep/mine",
        "name: null\nseeds: [1, 1]\nmax_failures: 3\nrows: [base, nope, base]\n",
        [
            'sweep.rows (conf/sweep/mine.yaml:4) is "nope"',
            "sweep.rows (conf/sweep/mine.yaml:4) lists base 2 times",
            "sweep.seeds (conf/sweep/mine.yaml:2) is [1, 1]",
        ],
    ),
]
CASES = [
    *[(words, {}, reasons) for words, reasons in TYPED],
    *[(words, {"row/mine": ROW_HEAD + body}, reasons) for words, body, reasons in ROWS],
    *[(words, {name: text}, reasons) for words, name, text, reasons in FILES],
]


@pytest.mark.parametrize(
    ("words", "files", "reasons"), CASES, ids=[f"{words} {files}"[:90] for words, files, _ in CASES]
)
def test_what_is_wrong_is_refused_with_each_reason(
    tmp_path: Path, words: str, files: dict[str, str], reasons: list[str]
) -> None:
    for name, text in files.items():
        own(tmp_path, name, "").write_bytes(text.encode("utf-8", "surrogateescape"))
    files_before = contents(tmp_path)
    refused_for(tmp_path, reasons, *shlex.split(words))
    assert contents(tmp_path) == files_before


def test_an_override_of_what_no_selected_row_changes_is_every_row_s(tmp_path: Path) -> None:
    rows = composed_sweep(
        ["sweep.rows=[base,c_ff_1024,c_layers_2]", "model.n_heads=4"], tmp_path
    ).rows
    assert {row.settings.config.model.n_heads for row in rows} == {4}


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "sweep.rows=[base]"],
        ["sweep"],
        ["train", "row=base"],
        ["status", "sweep.rows=[base]"],
    ],
)
def test_a_refusal_ends_with_2_and_leaves_nothing(tmp_path: Path, arguments: list[str]) -> None:
    outcome = allelse(tmp_path, *arguments, "model.n_headz=4")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "did you mean model.n_heads?" in outcome.stderr
    assert ("Nothing was started." in outcome.stderr.splitlines()) == (arguments[0] != "status")
    assert contents(tmp_path) == []


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    own(tmp_path, "row/mine", f"{ROW_HEAD}model:\n  n_heads: many\n")
    own(tmp_path, "row/big", "# mine\n")
    files_before = contents(tmp_path)
    rows = "sweep.rows=[base,c_ff_1024,bass,big,mine]"
    values = ["model.n_headz=4", "decode.beam=0", "model.p_drop=1.5", "model.d_ff=8", "scale=huge"]
    message = refusal(
        tmp_path, "sweep", rows, *values, "~train.steps", "scale.depth=1,2", "what", "scale.width=3"
    )
    for part in (
        *(
            "model.n_headz (command line)",
            "decode.beam (command line)",
            "model.p_drop (command line)",
        ),
        "model.d_ff (command line) is changed by rows c_ff_1024, big",
        *('scale (command line) is "huge"', "train.steps (command line) cannot be removed"),
        *(
            "scale.depth (command line) lists several",
            "what (command line)",
            "scale.width (command line)",
        ),
        *('sweep.rows (command line) is "bass"', 'model.n_heads (conf/row/mine.yaml:4) is "many"'),
        "row/big.yaml (conf/row/big.yaml) shadows",
    ):
        assert part in message
    assert message.count("command line) is 1.5") == 1, "an error of every row is reported once"
    assert contents(tmp_path) == files_before
