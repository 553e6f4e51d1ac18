"""What the name of a column and its values say about what the column is for."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from tracking.observed.source_table import SourceTable, Value, is_number, whole_number
from tracking.words import grouped


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


LOWER_IS_BETTER = word_set(
    "loss ppl perplexity nll error err mse rmse mae mape wer cer ter fid bpc bpb eer ece brier "
    "crossentropy regret failure fail miss fpr"
)
HIGHER_IS_BETTER = word_set(
    "acc accuracy bleu chrf rouge meteor comet f1 f auc auroc auprc ap map miou iou dice recall "
    "precision score reward return em r2 spearman pearson psnr ssim mcc success ndcg mrr hits "
    "top1 top5 pass kappa correct win hit solve tpr"
)
OF_METRICS = word_set("mean avg average macro micro weighted overall at k")
NOT_MEASURED = word_set(
    "weight coef coefficient alpha lambda scale smoothing margin type fn name threshold target "
    "rate lr"
)
"""A column with one of these in its name is a setting, although it may speak of a loss."""
MEASURED_RATE = re.compile(
    r"(?:success|win|hit|pass|solve|error|failure|fail|miss)[ _-]?rate", re.I
)
"""A share of samples. Other rates, such as that of learning, are settings."""
RATE = "rate"
HYPERPARAMETERS = word_set(
    "lr learning rate decay dropout momentum beta beta1 beta2 eps epsilon alpha gamma lambda "
    "temperature warmup weight smoothing clip ratio prob probability width depth sigma tau "
    "threshold margin coef scale"
)
SHARES = word_set("fraction split size ratio portion percent l1 l2 delta drop weights coeff")
SETS = ("test", "dev", "val", "valid", "validation", "eval", "train")
TRAINING = ("train", "training")
IDENTITIES = word_set(
    "name run_name runname run trial id run_id uuid experiment_id experiment_name url link path "
    "notes note tags user username agent sweep sweep_name group job_type jobtype description "
    "updated created createdat created_at start_time starttime started end_time endtime timestamp "
    "_timestamp artifact_uri artifact_location output_dir out_dir output out log_dir logdir "
    "logging_dir save_dir run_dir workdir report_to host hostname node pid key change attempts "
    "heartbeatat lifecycle_stage group_name worker device_flops mfu"
)
"""These rarely tell one row from another."""
CHOSEN_IDENTITIES = word_set("agent sweep group group_name job_type jobtype change worker")
"""Those that a program may also take as a setting."""
NAMES = ("name", "run_name", "runname", "tags.mlflow.runname", "trial", "run", "run_id", "id")
"""Columns that name a run, the best one first."""
STATES = ("state", "status")
STARTS = ("created", "start_time", "starttime", "created_at", "createdat", "started")
TIMES = word_set("timestamp _timestamp time date datetime wall_time walltime")
"""When a line was written."""
ENDS = ("end_time", "endtime", "finished_at", "ended")
ROW_TEXTS = (*NAMES, "group", "group_name", "job_type", "jobtype", "change", "tags", "notes")
"""Columns that name rows if no setting varies, the best one first."""
ROW_WORDS = word_set("change group")
TAGGED_WORDS = word_set("change group order")
"""What a table of allelse says of a row; its runs in MLflow have it in tags."""
COSTS = {
    "seconds": word_set("seconds runtime _runtime duration train_runtime wall_seconds"),
    "params": word_set("params n_params num_params parameters num_parameters n_parameters"),
    "flops": word_set("flops total_flos total_flops"),
    "cpu_seconds": word_set("cpu_seconds"),
}
DEVICES = word_set("device gpu gpu_type gpu_name accelerator")
MACHINE = word_set("gpu_count cpu_count gpus num_gpus cpu n_gpu num_workers")
STEPS_REACHED = word_set(
    "step _step global_step trainer/global_step iteration iter "
    "_iteration epoch training_step train_step"
)
"""Counters at the end of a run. A number of epochs or steps that was asked for is a setting."""
LENGTHS = word_set("step steps epoch epochs iter iters iteration iterations updates")
CODE = word_set("commit sha revision dirty branch")
CODE_NAMES = word_set("code_version code_hash git_hash code git_rev githash")
DATA = word_set("data dataset datasets corpus split")
DIGESTS = word_set("hash digest fingerprint checksum version revision sha md5 sha256")
PACKAGES = word_set(
    "python torch pytorch tensorflow jax numpy transformers cuda cudnn driver lightning keras "
    "sklearn scipy xgboost tokenizers flax framework library pandas"
)
PACKAGE_FOLDERS = word_set("versions version packages package requirements env pip")
FINISHED = word_set("finished completed complete success succeeded done ok")
RUNNING = word_set("running pending queued scheduled preempting paused started")
BEST = "best"
BEST_WORDS = word_set("best max min peak")
LAST_WORDS = word_set("last final end")
PREFIXES = ("params.", "metrics.", "tags.", "config.", "summary.", "config/", "summary/")

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")


def words_of(column: str) -> list[str]:
    """The words of a name, in lower case: [learning, rate] of learningRate."""
    return [word.lower() for word in _WORD.findall(column)]


def plain_name(column: str) -> str:
    """Without the folder that MLflow and others put before it."""
    prefix = next((prefix for prefix in PREFIXES if column.startswith(prefix)), "")
    return column[len(prefix) :] or column


def last_part(column: str) -> str:
    """lr of optimizer.lr; acc of test/acc."""
    return re.split(r"[./]", plain_name(column))[-1] or column


def is_called(column: str, names: Collection[str]) -> bool:
    """Whether the column has one of these names, in any case and with spaces for underscores."""
    plain = plain_name(column).strip().lower().replace(" ", "_")
    return plain in names or column.lower() in names


def direction(column: str) -> str | None:
    """Whether more is better, ``up``, or less, ``down``; None if its name does not tell."""
    if not NOT_MEASURED.isdisjoint(_words_of_setting(column)):
        return None
    return spoken_direction(column)


def spoken_direction(column: str) -> str | None:
    """The same, even if the name may be a setting's."""
    words = words_of(column)
    if not LOWER_IS_BETTER.isdisjoint(words):
        return "down"
    return None if HIGHER_IS_BETTER.isdisjoint(words) else "up"


def is_set_by_hand(column: str) -> bool:
    """Whether a word in its name belongs to a setting, even next to a metric's or a set's."""
    by_hand = NOT_MEASURED | HYPERPARAMETERS | SHARES
    return not by_hand.isdisjoint(_words_of_setting(column))


def _words_of_setting(column: str) -> list[str]:
    """The words of its name, without the one that success_rate shares with learning_rate."""
    is_share = MEASURED_RATE.search(column) is not None
    return [word for word in words_of(column) if not (is_share and word == RATE)]


def is_metric_name(column: str) -> bool:
    """Whether its name is a metric's, such as val_acc: kl_loss may be the weight of a loss."""
    words = {word for word in score_stem(column) if not word.isdigit()} - OF_METRICS
    if MEASURED_RATE.search(column):
        words.discard(RATE)
    metrics = LOWER_IS_BETTER | HIGHER_IS_BETTER
    return bool(words) and words <= metrics and not is_set_by_hand(column)


def set_of(column: str) -> str | None:
    """The set in the column's name: test in test/acc and test_acc."""
    words = words_of(column)
    return next((name for name in SETS if name in words), None)


def metric_name(column: str) -> str:
    """acc of test/acc, final/acc and metrics.acc."""
    return last_part(column)


def score_stem(column: str) -> tuple[str, ...]:
    """What columns of one score have in common, whatever its set, and whether it is the best or
    the last value."""
    left_out = {*BEST_WORDS, *LAST_WORDS, *SETS, "metrics", "params", "summary"}
    return tuple(word for word in words_of(column) if word not in left_out)


MANY_VALUES = 0.8
"""The share of runs with a value of their own, from which numbers were measured and not set."""
MOST_VALUES = 0.6
"""The same share if the other settings give every row the same seeds."""
FEWEST_RUNS = 4
"""Fewer runs don't show whether each has a value of its own."""


def is_measured(table: SourceTable, column: str) -> bool:
    """Whether its numbers came out of a run: its name is a metric's, or each run has another."""
    numbers = _numbers(table, column)
    if is_metric_name(column) and (numbers or _has_numbers_in_texts(table, column)):
        return True
    if not numbers or len(numbers) < len(table.values(column)) or is_set_by_hand(column):
        return False
    words = {*words_of(column)}
    if BEST in words and words & LENGTHS:
        return True
    is_of_set = set_of(column) is not None and ("/" in column or "_" in column)
    if _has_fractions(numbers) and (is_of_set or direction(column) is not None):
        return not is_shared(table, column)
    return is_own(table, column) and _has_fractions(numbers)


def _has_numbers_in_texts(table: SourceTable, column: str) -> bool:
    """Whether values can be scores, such as 90.1 +- 0.2, and not the name of a loss, such as
    mse."""
    texts = [value for value in table.values(column) if isinstance(value, str)]
    return any(text.strip()[:1].isdigit() for text in texts)


def is_own(table: SourceTable, column: str, share: float = MANY_VALUES) -> bool:
    """Whether nearly every run has another number there."""
    numbers = _numbers(table, column)
    return len({*numbers}) >= share * len(table.lines) and len(numbers) >= FEWEST_RUNS


def is_shared(table: SourceTable, column: str) -> bool:
    """Whether several runs have each of its values."""
    numbers = Counter(table.values(column)).values()
    return sum(numbers) >= FEWEST_RUNS and min(numbers) > 1


def measured_settings(table: SourceTable, roles: Mapping[str, str], seed: str | None) -> list[str]:
    """Numbers with the name of a setting, but a different value in each run, such as a learning
    rate at its last step or the number of a job: without them, the other settings have the same
    seeds again and again."""
    if seed is None:
        return []
    for share in (MANY_VALUES, MOST_VALUES):
        settings = [column for column, role in roles.items() if role == "setting"]
        single = [column for column in settings if is_own(table, column, share)]
        shared = _varying(table, roles, single)
        groups = _seeds_by_settings(table, shared, seed)
        if single and shared and _are_rows(groups, needs_whole=share < MANY_VALUES):
            return single
    return []


def settings_called_like_scores(
    table: SourceTable, roles: Mapping[str, str], seed: str | None
) -> list[str]:
    """Whole numbers such as a precision of 16 and 32 bits, and rates such as that of planted
    failures: one for all runs, or without them rows have the same seeds again and again."""
    return [
        column
        for column, role in roles.items()
        if role == "measured"
        and is_metric_name(column)
        and (MEASURED_RATE.search(column) or not _has_fractions(_numbers(table, column)))
        and _separates_rows(table, roles, column, seed)
    ]


def settings_called_like_identities(
    table: SourceTable, roles: Mapping[str, str], seed: str | None
) -> list[str]:
    """Texts such as the group of a method, next to a setting that varies: without them rows have
    the same seeds again and again."""
    if seed is None or not _varying(table, roles, ()):
        return []
    return [
        column
        for column, role in roles.items()
        if role in ("words", "unused")
        and is_called(column, CHOSEN_IDENTITIES)
        and is_shared_text(table, column)
        and _separates_rows(table, roles, column, seed)
    ]


def _separates_rows(
    table: SourceTable, roles: Mapping[str, str], column: str, seed: str | None
) -> bool:
    values = {*table.values(column)}
    if len(values) == 1:
        return len(table.lines) > 1
    if seed is None or not is_shared(table, column):
        return False
    settings = _varying(table, roles, ())
    without = _seeds_by_settings(table, settings, seed)
    separated = _seeds_by_settings(table, [*settings, column], seed)
    return not _are_rows(without, needs_whole=False) and _are_rows(separated, needs_whole=False)


def names_each_run(table: SourceTable, column: str) -> bool:
    """Whether it is a text that no two runs share, such as a path."""
    values = table.values(column)
    are_texts = bool(values) and all(isinstance(value, str) for value in values)
    return are_texts and len({*values}) == len(values) >= FEWEST_RUNS


def is_shared_text(table: SourceTable, column: str) -> bool:
    """Whether every run has a text, and several runs have the same one."""
    values = table.values(column)
    are_texts = len(values) == len(table.lines) and all(isinstance(text, str) for text in values)
    return are_texts and 1 < len({*values}) < len(values)


def varies(table: SourceTable, column: str, seed: str | None) -> bool:
    """Whether it has several values, which the seed doesn't decide."""
    if len({*table.values(column)}) < 2:
        return False
    pairs = {(line.get(seed or ""), line.get(column)) for line in table.lines}
    seeds = {number for number, _ in pairs}
    return len(seeds) < len(pairs) or len(seeds) == len(table.lines)


def _numbers(table: SourceTable, column: str) -> list[Value]:
    return [value for value in table.values(column) if is_number(value)]


def _has_fractions(numbers: Sequence[Value]) -> bool:
    return any(whole_number(value) is None for value in numbers)


def cells(line: Mapping[str, Value], columns: Sequence[str]) -> tuple[Value, ...]:
    return tuple(line.get(column) for column in columns)


def _varying(table: SourceTable, roles: Mapping[str, str], left_out: Sequence[str]) -> list[str]:
    """Settings and the column of rows, without some."""
    varying: list[str] = []
    for column, role in roles.items():
        if role in ("setting", "row") and column not in left_out:
            values = {line.get(column) for line in table.lines}
            if len(values) > 1:
                varying.append(column)
    return varying


def _seeds_by_settings(table: SourceTable, settings: Sequence[str], seed: str) -> list[list[Value]]:
    """Of each combination of settings the seeds of its runs."""
    lines = table.lines
    return list(grouped((cells(line, settings), line.get(seed)) for line in lines).values())


def _are_rows(groups: Sequence[Sequence[Value]], *, needs_whole: bool) -> bool:
    """Whether no group has a seed twice, and most have several. ``needs_whole``: all have the same
    seeds."""
    if any(len({*group}) < len(group) for group in groups):
        return False
    runs = sum(len(group) for group in groups)
    seed_sets = {frozenset(group) for group in groups}
    return len(groups) <= runs / 2 and (len(seed_sets) == 1 or not needs_whole)
