"""What names of columns usually stand for: words of metrics, seeds, packages, machines and so on,
as W&B, MLflow, Lightning and Trainer write them."""

import re


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


LOWER_IS_BETTER = _set(
    "loss ppl perplexity nll error err mse rmse mae mape wer cer ter fid bpc bpb eer ece brier "
    "crossentropy regret"
)
HIGHER_IS_BETTER = _set(
    "acc accuracy bleu chrf rouge meteor comet f1 f auc auroc auprc ap map miou iou dice recall "
    "precision score reward return em r2 spearman pearson psnr ssim mcc success ndcg mrr hits "
    "top1 top5 pass kappa correct"
)
OF_METRICS = _set("mean avg average macro micro weighted overall at k")
NOT_MEASURED = _set(
    "weight coef coefficient alpha lambda scale smoothing margin type fn name threshold target "
    "rate lr"
)
"""A column with one of these in its name is a setting, although it may speak of a loss."""
HYPERPARAMETERS = _set(
    "lr learning rate decay dropout momentum beta beta1 beta2 eps epsilon alpha gamma lambda "
    "temperature warmup weight smoothing clip ratio prob probability width depth sigma tau "
    "threshold margin coef scale"
)
SHARES = _set("fraction split size ratio portion percent l1 l2 delta drop weights coeff")
SETS = ("test", "dev", "val", "valid", "validation", "eval", "train")
TRAINING = ("train", "training")
IDENTITIES = _set(
    "name run_name runname run trial id run_id uuid experiment_id experiment_name url link path "
    "notes note tags user username agent sweep sweep_name group job_type jobtype description "
    "updated created createdat created_at start_time starttime started end_time endtime timestamp "
    "_timestamp artifact_uri artifact_location output_dir out_dir output out log_dir logdir "
    "logging_dir save_dir run_dir workdir report_to host hostname node pid key change attempts "
    "heartbeatat lifecycle_stage group_name worker device_flops mfu"
)
"""These never tell one row from another."""
NAMES = ("name", "run_name", "runname", "tags.mlflow.runname", "trial", "run", "run_id", "id")
"""Columns that name a run, the best one first."""
STATES = ("state", "status")
STARTS = ("created", "start_time", "starttime", "created_at", "createdat", "started")
TIMES = ("timestamp", "_timestamp", "time", "date", "datetime", "wall_time", "walltime")
"""When a line was written."""
ENDS = ("end_time", "endtime", "finished_at", "ended")
ROW_TEXTS = (*NAMES, "group", "group_name", "job_type", "jobtype", "change", "tags", "notes")
"""Columns that name rows if no setting varies, the best one first."""
ROW_WORDS = ("change", "group")
TAGGED_WORDS = ("change", "group", "order")
"""What a table of allelse says of a row; its runs in MLflow have it in tags."""
COSTS = {
    "seconds": ("seconds", "runtime", "_runtime", "duration", "train_runtime", "wall_seconds"),
    "params": ("params", "n_params", "num_params", "parameters", "num_parameters", "n_parameters"),
    "flops": ("flops", "total_flos", "total_flops"),
    "cpu_seconds": ("cpu_seconds",),
}
DEVICES = ("device", "gpu", "gpu_type", "gpu_name", "accelerator")
MACHINE = ("gpu_count", "cpu_count", "gpus", "num_gpus", "cpu", "n_gpu", "num_workers")
STEPS_REACHED = (
    *("step", "_step", "global_step", "trainer/global_step", "iteration", "iter", "_iteration"),
    *("epoch", "training_step", "train_step"),
)
"""Counters at the end of a run. A number of epochs or steps that was asked for is a setting."""
LENGTHS = _set("step steps epoch epochs iter iters iteration iterations updates")
CODE = _set("commit sha revision dirty branch")
CODE_NAMES = ("code_version", "code_hash", "git_hash", "code", "git_rev", "githash")
DATA = _set("data dataset datasets corpus split")
DIGESTS = _set("hash digest fingerprint checksum version revision sha md5 sha256")
PACKAGES = _set(
    "python torch pytorch tensorflow jax numpy transformers cuda cudnn driver lightning keras "
    "sklearn scipy xgboost tokenizers flax framework library pandas"
)
PACKAGE_FOLDERS = ("versions", "version", "packages", "package", "requirements", "env", "pip")
FINISHED = _set("finished completed complete success succeeded done ok")
RUNNING = _set("running pending queued scheduled preempting paused started")
BEST = "best"
BEST_WORDS = _set("best max min peak")
LAST_WORDS = _set("last final end")
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
    """lr of optimizer.lr; bleu of test/bleu."""
    return re.split(r"[./]", plain_name(column))[-1] or column


def is_called(column: str, names: tuple[str, ...] | frozenset[str]) -> bool:
    """Whether the column has one of these names, in any case and with spaces for underscores."""
    plain = plain_name(column).strip().lower().replace(" ", "_")
    return plain in names or column.lower() in names


def direction(column: str) -> str | None:
    """Whether more is better, ``up``, or less, ``down``; None if its name does not tell."""
    words = words_of(column)
    if not NOT_MEASURED.isdisjoint(words):
        return None
    if not LOWER_IS_BETTER.isdisjoint(words):
        return "down"
    return None if HIGHER_IS_BETTER.isdisjoint(words) else "up"


def is_set_by_hand(column: str) -> bool:
    """Whether a word of its name belongs to a setting, also beside that of a metric or a set."""
    by_hand = NOT_MEASURED | HYPERPARAMETERS | SHARES
    return not by_hand.isdisjoint(words_of(column))


def is_metric_name(column: str) -> bool:
    """Whether its name is a metric's, such as val_acc: kl_loss may be the weight of a loss."""
    words = {word for word in score_stem(column) if not word.isdigit()} - OF_METRICS
    metrics = LOWER_IS_BETTER | HIGHER_IS_BETTER
    return bool(words) and words <= metrics and not is_set_by_hand(column)


def set_of(column: str) -> str | None:
    """The set whose name stands in the column's: test of test/bleu and test_bleu."""
    words = words_of(column)
    return next((name for name in SETS if name in words), None)


def metric_name(column: str) -> str:
    """bleu of test/bleu, final/bleu and metrics.bleu."""
    return last_part(column)


def score_stem(column: str) -> tuple[str, ...]:
    """What columns of one score have in common, whatever its set, and whether it is the best or
    the last value."""
    left_out = {*BEST_WORDS, *LAST_WORDS, *SETS, "metrics", "params", "summary"}
    return tuple(word for word in words_of(column) if word not in left_out)
