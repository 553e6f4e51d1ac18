"""The schema of a trial: the settings that determine a trained model, and their checks.

Base is the paper's base (sections 3 and 5, Table 3); its values live in ``conf/``, not here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from sweeps.task import (
    Divided,
    Fingerprinted,
    Neutral,
    Observes,
    OtherNames,
    Problem,
    Range,
    Scores,
    Seed,
    Symbol,
    parse,
)
from transformer.bleu_tokenizer import USUAL, BleuTokenizer, package_faults
from transformer.faults import Fault, FaultyError

SEMANTICS = 4
"""Increased whenever a code change makes a configuration train to a different result."""

PositionKind = Literal["sinusoids", "learned"]
ScoreKind = Literal["scaled", "dot", "additive"]
EncoderKind = Literal["attention", "recurrent", "convolutional", "separable"]
KERNEL = 7
MOST_APART = 100_000
"""How far apart the pieces of a convolution may be: farther than any sentence is long."""
LONGEST_LINE_FACTOR = 8
"""The longest line that a model with sinusoids reads or writes, in multiples of ``max_positions``.
"""
CONVOLUTIONS = ("convolutional", "separable")
"""The kinds of encoder layer that have a kernel and a dilation."""
Precision = Literal["fp32", "bf16"]
TOKENS_PER_MICRO_BATCH = {"cpu": 8_000, "cuda": 32_000}
"""By kind of device, unless ``train.tokens_per_micro_batch`` is set."""
TOKENS_PER_SEARCH = {"cpu": 2_000, "cuda": 16_000}
"""Sentences × longest source that are translated at a time, by kind of device. On a GPU only the
memory for logits limits the sentences."""
INT32_MAX = 2**31 - 1
MOST_PIECES = 2**24  # SentencePiece takes a minute to refuse a hundred times as many
PositiveCount = Annotated[int, Range(1, INT32_MAX)]
Probability = Annotated[float, Range(0, 1, below=True)]
SPLITS = ("train", "dev", "test")
SACREBLEU = "sacrebleu:"
"""Stands before the name of one of sacreBLEU's test sets, in the place of two files."""
TRAIN_SAMPLE = "train_sample"
"""The name of a set of training pairs, which is scored but not translated.

It is also the key of `decode` that asks for it.
"""
ADAM_BETA1 = 0.9
ADAM_BETA2 = 0.98
ADAM_EPSILON = 1e-9
"""The paper's (section 5.3)."""
D_MODEL_NAMES = OtherNames(
    "hidden hidden_size dim width embed_dim embedding_dim n_embd",
    "model.d_model is the width, and model.d_ff is the inner width of the feed-forward layers",
)
D_FF_NAMES = OtherNames("ffn_dim feedforward dim_feedforward intermediate_size")
N_HEADS_NAMES = OtherNames("attention_heads num_attention_heads h")
D_K_NAMES = OtherNames("key_dim d_head head_dim")
MAX_POSITIONS_NAMES = OtherNames("max_len max_length max_seq_len seq_len block_size context_length")
STEPS_NAMES = OtherNames(
    "step iterations max_iters updates epoch epochs num_epochs max_epochs",
    "train.steps counts steps, not epochs",
)
LR_FACTOR_NAMES = OtherNames(
    "lr learning_rate max_lr base_lr eta",
    "train.lr_factor multiplies the paper's learning rate; 1.0 is the paper's",
)
TOKENS_PER_BATCH_NAMES = OtherNames(
    "batch batch_size bs max_tokens global_batch_size",
    "train.tokens_per_batch counts tokens, not sentences",
)
LABEL_SMOOTHING_NAMES = OtherNames("ε_ls eps_ls epsilon eps ls")
EVALUATE_EVERY_NAMES = OtherNames("eval_interval eval_steps val_every")
CHECKPOINT_EVERY_NAMES = OtherNames("save_every save_interval save_steps")
KEEP_CHECKPOINTS_NAMES = OtherNames("keep_last save_total_limit max_to_keep")
AVERAGE_CHECKPOINTS_NAMES = OtherNames("average averaging avg_checkpoints")


@dataclass(frozen=True)
class ModelConfig:
    """The encoder–decoder of section 3; d_k and d_v do not follow from d_model (Table 3, row B).

    ``attention_score`` makes a logit of a query and a key (section 3.2.1). ``encoder_layer`` stands
    in the place of the encoder's self-attention (section 4). A convolution reads ``kernel`` pieces,
    which are ``dilation`` to the power of i apart in layer i, counted from 0. Self-attention reads
    the ``attention_window`` positions around its own, the decoder only those up to its own.
    """

    n_layers: Annotated[PositiveCount, Symbol("N"), Divided("depth"), OtherNames("depth blocks")]
    d_model: Annotated[PositiveCount, Symbol("d_model"), Divided("width"), D_MODEL_NAMES]
    d_ff: Annotated[PositiveCount, Symbol("d_ff"), Divided("width"), D_FF_NAMES]
    n_heads: Annotated[PositiveCount, Symbol("h"), N_HEADS_NAMES]
    d_k: Annotated[PositiveCount, Symbol("d_k"), Divided("width"), D_K_NAMES]
    d_v: Annotated[PositiveCount, Symbol("d_v"), Divided("width")]
    p_drop: Annotated[Probability, Symbol("P_drop"), OtherNames("dropout dropout_rate")]
    positions: Annotated[PositionKind, OtherNames("positional_encoding pos_emb")]
    max_positions: Annotated[PositiveCount, MAX_POSITIONS_NAMES]
    attention_bias: bool
    attention_dropout: Probability
    relu_dropout: Probability
    attention_score: Annotated[ScoreKind, Neutral("scaled")] = "scaled"
    encoder_layer: Annotated[EncoderKind, Neutral("attention")] = "attention"
    kernel: Annotated[int, Range(1, 1_001), Symbol("k"), Neutral(KERNEL)] = KERNEL
    dilation: Annotated[int, Range(1, 1_000), Neutral(1)] = 1
    attention_window: Annotated[int | None, Range(1, INT32_MAX), Symbol("r"), Neutral(None)] = None

    @property
    def longest_sequence(self) -> int | None:
        """The most pieces that the model can read or write; None without a limit.

        Sinusoids go on beyond ``max_positions``, a learned table ends there (section 3.5).
        """
        return self.max_positions if self.positions == "learned" else None

    @property
    def longest_line(self) -> int:
        """The most pieces of a line to translate or to score.

        ``allelse translate`` cuts off the rest of a longer line; a longer one in a set is refused.
        Attention's memory grows with their square, so sinusoids need a limit, too.
        """
        return self.longest_sequence or LONGEST_LINE_FACTOR * self.max_positions

    @property
    def attention_radius(self) -> int | None:
        """How far self-attention reads to each side; None without a limit."""
        return None if self.attention_window is None else (self.attention_window - 1) // 2


@dataclass(frozen=True)
class TrainConfig:
    """Optimization (section 5).

    ``tokens_per_batch`` bounds sentences × longest side, over all workers. A ``score_every`` of 0
    means no scores during training. Without ``tokens_per_micro_batch`` the kind of device sets it.
    Training leaves out pairs with more than ``longest`` pieces on a side. What the heads read in
    ``pictured_sentence`` is drawn when training ends.
    """

    steps: Annotated[PositiveCount, Symbol("steps"), Divided("steps", optional=True), STEPS_NAMES]
    warmup_steps: PositiveCount
    lr_factor: Annotated[float, Range(0, above=True), LR_FACTOR_NAMES]
    tokens_per_batch: Annotated[PositiveCount, TOKENS_PER_BATCH_NAMES]
    label_smoothing: Annotated[Probability, Symbol("ε_ls"), LABEL_SMOOTHING_NAMES]
    precision: Precision
    seed: Annotated[int, Range(0, INT32_MAX), Seed()]
    log_every: Annotated[PositiveCount, Observes()]
    evaluate_every: Annotated[PositiveCount, Observes(), EVALUATE_EVERY_NAMES]
    checkpoint_every: Annotated[PositiveCount, Observes(), CHECKPOINT_EVERY_NAMES]
    keep_checkpoints: Annotated[PositiveCount, Observes(), KEEP_CHECKPOINTS_NAMES]
    score_every: Annotated[int, Range(0, INT32_MAX), Observes(), Neutral(0)] = 0
    tokens_per_micro_batch: Annotated[int | None, Range(1, INT32_MAX), Observes()] = None
    adam_beta1: Annotated[Probability, Symbol("β₁"), Neutral(ADAM_BETA1)] = ADAM_BETA1
    adam_beta2: Annotated[Probability, Symbol("β₂"), Neutral(ADAM_BETA2)] = ADAM_BETA2
    adam_epsilon: Annotated[float, Range(0, above=True), Symbol("ε"), Neutral(ADAM_EPSILON)] = (
        ADAM_EPSILON
    )
    longest: Annotated[int | None, Range(1, INT32_MAX), Neutral(None)] = None
    pictured_sentence: Annotated[str | None, Observes(), Neutral(None)] = None


@dataclass(frozen=True)
class DecodeConfig:
    """Beam search (section 6.1): width, GNMT length penalty, extra output length; and the weights.

    The weights are the mean of ``average_checkpoints`` checkpoints, ``average_every`` steps apart.
    ``train_sample`` says whether a sample of train is also scored.
    """

    beam: Annotated[int, Range(1, 32), Scores()]
    alpha: Annotated[float, Range(0), Scores(), OtherNames("α length_penalty lenpen lp")]
    max_extra: Annotated[int, Range(0, INT32_MAX), Scores()]
    average_checkpoints: Annotated[int, Range(1, 1_000), Scores(), AVERAGE_CHECKPOINTS_NAMES]
    average_every: Annotated[PositiveCount, Scores()]
    train_sample: Annotated[bool, Scores(), Neutral(False)] = False


@dataclass(frozen=True)
class DataConfig:
    """The source of the text.

    ``train``, ``dev`` and ``test`` are [source, target] files of ``name: files``. ``dev`` and
    ``test`` may also be a set of sacreBLEU: ``[sacrebleu:wmt13]``. ``test`` may be missing.
    ``bleu_tokenizer`` changes BLEU, but nothing that is trained.
    """

    name: Annotated[Literal["synthetic", "multi30k", "files"], Fingerprinted()]
    source: Annotated[str, Fingerprinted()]
    target: Annotated[str, Fingerprinted()]
    vocab_size: Annotated[int, Range(8, MOST_PIECES), Fingerprinted()]
    mirror: Annotated[str | None, Fingerprinted(place=True, lasting=False)]
    train: Annotated[list[str] | None, Fingerprinted(place=True)]
    dev: Annotated[list[str] | None, Fingerprinted(place=True)]
    test: Annotated[list[str] | None, Fingerprinted(place=True)]
    bleu_tokenizer: Annotated[BleuTokenizer, Scores(), Neutral(USUAL)] = USUAL


@dataclass(frozen=True)
class TrialConfig:
    """All settings of one trial."""

    model: ModelConfig
    train: TrainConfig
    decode: DecodeConfig
    data: DataConfig

    @property
    def length_limit(self) -> tuple[str, int]:
        """The key that limits the longer side of a training pair, and its value in pieces."""
        longest = self.train.longest
        if longest is None or longest >= self.model.max_positions:
            return "model.max_positions", self.model.max_positions
        return "train.longest", longest

    @property
    def averaged_steps(self) -> list[int]:
        """The steps of the weights that are scored.

        They are the last multiples of ``average_every``, or only the last step.
        """
        n = self.decode.average_checkpoints
        if n <= 1:
            return [self.train.steps]
        interval = self.decode.average_every
        last = self.train.steps // interval
        return [interval * multiple for multiple in range(last - n + 1, last + 1)]

    def problems(self) -> list[Problem]:
        """Conflicts between keys whose values are valid one by one."""
        return [
            *self._model_problems(),
            *self._layer_problems(),
            *self._average_problems(),
            *self._data_problems(),
        ]

    def _model_problems(self) -> Iterator[Problem]:
        train = self.train
        d_model = self.model.d_model
        limiting_key, longest = self.length_limit
        if self.model.positions == "sinusoids" and d_model % 2:
            allowed = "must be even with sinusoids, which pair sines and cosines"
            yield Problem("model.d_model", f"is {d_model}", allowed)
        if train.tokens_per_batch < longest:
            least = f"{limiting_key} ({longest})"
            allowed = f"must be at least {least}, or the longest pair fits in no batch"
            yield Problem("train.tokens_per_batch", f"is {train.tokens_per_batch}", allowed)
        sentence = train.pictured_sentence
        if sentence is not None and not sentence.strip():
            yield Problem("train.pictured_sentence", "is empty", "must be a sentence or null")
        uniform = 1 - 1 / self.data.vocab_size
        if train.label_smoothing > uniform:
            allowed = f"must be at most {uniform:.4g}, which is uniform over data.vocab_size pieces"
            yield Problem("train.label_smoothing", f"is {train.label_smoothing}", allowed)

    def _layer_problems(self) -> Iterator[Problem]:
        model = self.model
        if model.encoder_layer == "recurrent" and model.d_model % 2:
            allowed = "must be even with recurrent layers, which read in two directions"
            yield Problem("model.d_model", f"is {model.d_model}", allowed)
        if model.kernel % 2 == 0:
            allowed = "must be odd: a convolution reads as many pieces before as after its own"
            yield Problem("model.kernel", f"is {model.kernel}", allowed, str(model.kernel + 1))
        window = model.attention_window
        if window is not None and window % 2 == 0:
            allowed = "must be odd or null: as many positions before as after its own"
            yield Problem("model.attention_window", f"is {window}", allowed, str(window + 1))
        farthest = model.dilation ** (model.n_layers - 1)
        if model.encoder_layer in CONVOLUTIONS and farthest > MOST_APART:
            problem = f"is {model.dilation}: {farthest:.0e} pieces apart in the last layer"
            yield Problem("model.dilation", problem, f"must reach at most {MOST_APART} there")

    def _average_problems(self) -> Iterator[Problem]:
        n = self.decode.average_checkpoints
        interval = self.decode.average_every
        steps = self.train.steps
        if n > 1 and n * interval > steps:
            most = max(1, steps // interval)
            reason = f"decode.average_every is {interval}, train.steps {steps}"
            allowed = f"must be at most {most}: {reason}"
            yield Problem("decode.average_checkpoints", f"is {n}", allowed)

    def _data_problems(self) -> Iterator[Problem]:
        for split in SPLITS:
            files = getattr(self.data, split)
            if self.data.name == "files" and not _is_text(split, files):
                problem = "is null" if files is None else f"is {files}"
                yield Problem(f"data.{split}", problem, TEXT_OF[split])
            if self.data.name != "files" and files is not None:
                yield Problem(f"data.{split}", f"is {files}", "must be null unless data=files")
        for fault in package_faults(self.data.bleu_tokenizer):
            yield Problem(fault.key, fault.found, fault.allowed)


TEXT_OF = {
    "train": "must be [source file, target file]",
    "dev": "must be [source file, target file], or a set of sacreBLEU: [sacrebleu:wmt13]",
    "test": "must be [source file, target file], a set of sacreBLEU: [sacrebleu:wmt14], or null",
}
"""What each split of ``data=files`` may be."""


def sacrebleu_set(files: list[str] | None) -> str | None:
    """The set of sacreBLEU that a split names, such as wmt13; None if it names files or nothing."""
    if files is None or len(files) != 1 or not files[0].startswith(SACREBLEU):
        return None
    return files[0].removeprefix(SACREBLEU)


def _is_text(split: str, files: list[str] | None) -> bool:
    """Whether a split of ``data=files`` has a form that is allowed for it."""
    if files is None:
        return split == "test"
    if split != "train" and sacrebleu_set(files) is not None:
        return True
    return len(files) == 2


def ctranslate2_faults(model: ModelConfig) -> Iterator[Fault]:
    """One for each setting whose model CTranslate2 cannot compute."""
    misfits = dict[str, object]()
    if model.attention_score == "additive":
        misfits["attention_score"] = model.attention_score
    if model.encoder_layer != "attention":
        misfits["encoder_layer"] = model.encoder_layer
    if model.attention_window is not None:
        misfits["attention_window"] = model.attention_window
    for name, value in misfits.items():
        found = f"is ctranslate2, which cannot compute model.{name} {value}"
        yield Fault("--to", found, "must be safetensors or mlflow, which hold any model")


def read_trial(tree: object) -> TrialConfig:
    """The configuration in plain data, as ``asdict`` gives it. Raises FaultyError."""
    trial, problems = parse(TrialConfig, tree)
    if trial is None:
        faults = []
        for problem in problems:
            faults.append(Fault(problem.key, problem.found, problem.allowed, problem.suggestion))
        raise FaultyError(*faults)
    return trial
