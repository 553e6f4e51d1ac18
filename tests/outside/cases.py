"""What users type and what they get, as tables: commands on two small studies, refusals, files,
MLflow, weights."""

from dataclasses import dataclass

ACCEPTED = {
    "the name": "--version > missing",
    "translation has a name and a version like every task": r" > (key|trial\.key|task)",
    "which steps are averaged is a key": r" > (average_every|decode\.average_every|changed_by)",
    "a record of each attempt and each scoring, of their code and of what the task tells": (
        r"provenance\.json > \w+|device|result\.json > (pairs|scoring)|\.jsonl > 0 > attempt|study\.json > (code|moves)"
    ),
    "keys of micro-batches, of Ray's dashboard, of base's seeds and of δ": (
        " > (tokens_per_micro_batch|dashboard|base_seeds|margins?)"
    ),
    "one sentence for all verbs": " > outcome > 0",
    "a study has an identity, by which its runs are found": (
        r"study\.json > identity|sweep\.(identity|carried|place|training)|study > tags > [\w.]+"
    ),
    "runs have their kind, row, mean and mark": r"tags > (kind|row(\.\w+)?)",
    "a difference is from the mean over all seeds of base": r"points > delta/\w+|delta_seeds",
    "a row may say how large it is": "rows > [0-9] > size",
    "differences have one mark; compare tests over samples": (
        r" > ((finding|test)_\w+|diverged|sample_tests|metrics > [0-9] > rows|seed [0-9] > \w+)"
    ),
    "tests that make no mark have no p": r" > p_(dunnett|welch)\w*",
    "a finding names the seeds for 80 % power, and a missing test what differs": (
        r" > (finding(_\w+)?|untested)"
    ),
    "compare has the digits of the table": "metrics > [0-9] > difference",
    "compare shows code and machine": "pairs > [0-9] > (origin|code)",
    "token accuracy is measured on every set": r" > (\S+/)?(accuracy|right)",
    "a plan says hours and memory": r" > ((scoring|ends_after)_seconds|interpolated|(seconds|memory)_(source|bytes))",
    "sweep.grid has gone": " > sweep > grid",
    "seconds of a device are measured": " > device_hours",
    "the file that init writes is formatted at 100 columns": r"files of mine-full > code/\w+/code\.json",
    "keys of Adam, of the tokenizer of BLEU, and of a sample of train": r"(adam_\w+|bleu_tokenizer|train_sample)",
    "attention is observed while training": r" > attention/\w+_(logit_sd|entropy)",
    "keys of layers, scores, windows and lengths": (
        " > (model[.])?(attention_score|attention_window|encoder_layer|kernel|dilation)| > "
        "(train[.])?longest"
    ),
}
"""Why a difference from the older version is meant: the path to it within an observation."""


@dataclass(frozen=True)
class Case:
    """One command in the folder of a study.

    ``reads`` is how a program reads its output: json, csv, yaml or lines; ``fields`` are those of
    the first record. ``says`` are words that it prints, ``writes`` the files that it leaves outside
    ``runs/``. ``file`` is written before it, with ``content``, and removed after it.
    """

    words: str
    reads: str = ""
    fields: str = ""
    says: str = ""
    writes: str = ""
    types: str = ""
    code: int = 0
    file: str = ""
    content: str = ""


def refusal(words: str, says: str, file: str = "", content: str = "") -> Case:
    """A wrong command. ``says`` are the key, the place and the fix."""
    return Case(words, says=says, file=file, content=content, code=2)


SHORT = (
    "scale=tiny data=synthetic train.steps=30 train.warmup_steps=10 train.log_every=10 "
    "train.evaluate_every=15"
    " train.checkpoint_every=15"
)
SWEEP = (
    f"sweep {SHORT} sweep.name=small sweep.rows=[base,b_key_16,e_learned_positions] "
    "sweep.seeds=[1,2]"
)
HEAD = "# @package _global_\nrow: {group: mine, change: mine}\n"
NARROW = f"{HEAD}model: {{n_heads: 16, d_k: 16, d_v: 16}}\n"
PLAN = (
    "row seed key group change before_scaling steps params flops finished state weights "
    "taken_from scoring_seconds"
    " seconds_source interpolated ends_after_seconds memory_bytes memory_source"
)
STATUS = "row seed key state step steps seconds_left attempts synced_step note"
STUDIES = "name rows seeds trials finished failed base headline damage"
GROUPS = "row scale model train decode data cluster tracking sweep paths"
WEIGHT_FILES = (
    "weights/README.md weights/config.json weights/model.safetensors weights/vocabulary.model"
)

COMMANDS = [
    Case(
        "--help",
        says=(
            "init plan sweep train status table report compare ui sync drop rm translate "
            "evaluate export"
        ),
    ),
    Case("--version", says="allelse"),
    Case("doctor", says="torch ray mlflow 20 rows compose"),
    Case("config row=big scale=paper", "yaml", GROUPS),
    Case("plan scale=tiny data=synthetic --json", "json", PLAN),
    Case("plan scale=half data=multi30k sweep.rows=[base,big] --json", "json", PLAN),
    Case("plan sweep.name=made sweep.vary={model.n_heads:[1,4]} --json", "json", PLAN),
    Case("plan sweep.name=made model.d_k=8,16 train.label_smoothing=0.0,0.1 --json", "json", PLAN),
    Case(
        "plan sweep.name=made sweep.rows=[base,mine] --json",
        "json",
        PLAN,
        file="conf/row/mine.yaml",
        content=NARROW,
    ),
    Case("sweep sweep.name=small", says="6 of 6 finished"),
    Case("studies --json", "json", STUDIES),
    Case("status sweep.name=small --json", "json", f"{STATUS} dev_ppl"),
    Case("status sweep.name=small --curves --metric dev/ppl", says="base PPL"),
    Case("logs base-s1 sweep.name=small", says="attempt 1"),
    Case("table sweep.name=small", says="base d_k 2 learned positional"),
    Case("table sweep.name=small --format csv", "csv"),
    Case("table sweep.name=small --format json", "json"),
    Case(
        (
            "table sweep.name=small --set test --metric nll --metric bleu_paper --base b_key_16 "
            "--format csv"
        ),
        "csv",
    ),
    Case("table sweep.name=small --format md", says="| base d_k 2 ±"),
    Case("table sweep.name=small --format html --intervals --best", says="<table not tested"),
    Case("report sweep.name=small --output report.html", says="report.html", writes="report.html"),
    Case("compare base b_key_16 sweep.name=small --json", "json", "pairs samples not_compared"),
    Case("evaluate base-s1 sweep.name=small --set dev --json", "json"),
    Case("evaluate base-s1 sweep.name=small --set dev decode.beam=2 --json", "json"),
    Case("translate base-s1 sweep.name=small --nbest 2", "lines", types="ein Hund\n\nzwei\n"),
    Case("export base-s1 sweep.name=small --to safetensors --output weights", writes=WEIGHT_FILES),
    Case(f"train {SHORT} row=base sweep.name=alone", says="1 of 1 finished"),
    Case("sync sweep.name=small", says="6 runs, 0 new points"),
    Case("drop b_key_16 sweep.name=small", says="--yes"),
]
OWN_COMMANDS = [
    Case("plan task=mine --json", "json", PLAN),
    Case("status task=mine --json", "json", f"{STATUS} test_mse"),
    Case("table task=mine --format json", "json"),
    Case("compare base straight --json", "json", "pairs samples not_compared"),
    Case("sweep task=mine sweep.rows=[base] sweep.seeds=[2] --add", says="1 of 1 finished"),
    Case("train task=mine row=straight sweep.name=alone", says="1 of 1 finished"),
    Case("rm alone --yes", says="trash"),
    Case("drop base-s2 --yes sweep.name=mine-full", says="trash"),
]

ROW = "conf/row/wrong.yaml"
OF_ROW = "plan sweep.rows=[wrong]"
TASK = "from sweeps.task import Task\n\n\ndef broken(:\n"
REFUSALS = [
    refusal("plan model.n_head=4", "model.n_head model.n_heads command line"),
    refusal(
        "plan model.n_heads=four train.stepss=1", "model.n_heads four train.stepss train.steps"
    ),
    refusal("plan train.label_smoothing=2", "train.label_smoothing 2"),
    refusal("plan lr=3", "train.lr_factor"),
    refusal("plan scale=tinny", "scale tinny tiny paper"),
    refusal("plan sweep.rows=[base,bgi]", "bgi big"),
    refusal("plan sweep.seeds=[1,1]", "sweep.seeds"),
    refusal("plan sweep.vary={model.n_head:[1]}", "model.n_head model.n_heads"),
    refusal("plan sweep.vary={model.n_heads:4}", "model.n_heads list"),
    refusal("sweep data=files data.train=[a,b] data.dev=[a,b] data.test=[a,b]", "data. a"),
    refusal("sweep task=nosuch", "task nosuch"),
    refusal("plan task=wrong", "wrong.py:4", "wrong.py", TASK),
    refusal("table sweep.name=none", "sweep.name none"),
    refusal("translate nosuch", "nosuch"),
    refusal("swep", "swep sweep"),
    refusal(OF_ROW, f"{ROW}:3 model.n_head model.n_heads", ROW, f"{HEAD}model: {{n_head: 4}}\n"),
    refusal(OF_ROW, f"{ROW}:4", ROW, f"{HEAD}model: {{n_heads: 4\n"),
    refusal(OF_ROW, f"{ROW} @package", ROW, "model: {n_heads: 4}\n"),
    refusal(OF_ROW, f"{ROW}:4", ROW, f"{HEAD}model: {{n_heads: 4}}\nmodel: {{d_k: 4}}\n"),
    refusal(OF_ROW, f"{ROW}:3", ROW, f"{HEAD}model: {{d_k: 010}}\n"),
    refusal(
        "plan sweep.rows=[base,big]",
        "conf/row/big.yaml",
        "conf/row/big.yaml",
        f"{HEAD}model: {{d_k: 8}}\n",
    ),
]
OF_STUDY = [
    refusal("sweep sweep.name=small train.steps=31", "train.steps 30 sweep.name"),
    refusal("sweep sweep.name=small sweep.rows=[big]", "big --add"),
    refusal("logs bas-s1 sweep.name=small", "bas-s1 base-s1"),
    refusal("table sweep.name=small --metric blue", "blue bleu"),
    refusal("stop sweep.name=small", "not running"),
]

FIELDS = {
    "study.json": (
        "name task settings rows seeds chosen trials cells code identity margins paired vouched"
    ),
    "base-s1/result.json": "key row seed step attempt params flops scores scoring weights",
    "base-s1/provenance.json": (
        "about attempt attempts branch code cpu data_fingerprint data_identity device diff from "
        "own_files pairs"
        " gpus_per_worker scorings steps task threads vocabulary"
    ),
    "base-s1/attempts.jsonl": "attempt",
    "base-s1/journal.jsonl": "attempt step metrics",
    "base-s1/config.yaml": (
        "key data_fingerprint task row scale model train decode data cluster sweep tracking paths"
    ),
    "base-s1/log.txt": "",
    "base-s1/hypotheses/dev.txt": "",
    "base-s1/statistics/test.jsonl": "attempt key scores step",
}
"""Files of the translation study, and the fields of their first records that two runs share."""
POINTS = (
    "attention/encoder_logit_sd attention/encoder_entropy attention/decoder_logit_sd"
    " attention/decoder_entropy attention/cross_logit_sd attention/cross_entropy"
    " train/loss train/gradient_norm train/learning_rate val/nll val/ppl val/accuracy best/nll "
    "best/ppl"
    " best/accuracy last/nll last/ppl last/accuracy final/accuracy final/test/accuracy final/nll"
    " final/ppl final/bleu final/bleu_paper final/chrf final/test/nll final/test/ppl "
    "final/test/bleu"
    " final/test/bleu_paper final/test/chrf delta/ppl delta/bleu published/ppl published/bleu "
    "published/params_m"
    " published/delta/ppl published/delta/bleu params flops pairs/train pairs/blank pairs/too_long"
)
TAGS = (
    "sweep.id sweep.identity sweep.carried sweep.training kind row row.ppl row.bleu table3.group "
    "table3.row"
    " table3.change table3.order"
    " trial.key seed attempt device data.fingerprint data.bleu_tokenizer decode.beam "
    "decode.train_sample"
    " decode.alpha decode.max_extra decode.average_checkpoints decode.average_every mlflow.runName"
)
TYPED = [("empty", REFUSALS), ("small", OF_STUDY), ("small", COMMANDS), ("own", OWN_COMMANDS)]
"""The folders where commands are typed, in this order."""
WEIGHT_ROWS = ("base", "b_key_16", "big", "e_learned_positions")
WEIGHTS = {
    f"{precision}-{workers}": f"sweep scale=tiny data=synthetic sweep.name={precision}-{workers} train.steps=40"
    f" sweep.rows=[{','.join(WEIGHT_ROWS)}] train.precision={precision} "
    f"cluster.workers={workers} decode.beam=1"
    for precision in ("fp32", "bf16")
    for workers in (1, 2)
}
"""Studies whose trained weights two versions share, bit for bit, by their names."""
