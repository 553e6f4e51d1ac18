"""Names and values in one line of a program's output: ``loss: 0.5``, ``loss=0.5``, a JSON object, a
progress bar, and the step or the epoch that they belong to."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracking.written.formats.json_lines import json_object
from tracking.written.point import STEP_NAMES, TIME_NAMES, WrittenPoint, points_of

SOURCE = "stdout"
LONGEST_LINE = 4000
ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|[\x08]"
)
"""What colors text, moves the cursor and names the window of a terminal."""
LOG_HEAD = re.compile(r"^.*?\b(?:DEBUG|INFO|WARNING|ERROR)\b[\s:\]|-]*")
"""Time and level before a message of Python's logging."""

NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan\b|inf(?:inity)?\b)"
END = r"(?![\w]|[.:/,]\d|-\d)"
"""What may not follow a number: a unit, or more of a date, a time, a version or an address."""
PAIR = re.compile(
    r"(?<![\w/.@])(?P<name>[A-Za-z_][\w/.@-]{0,60}(?: [A-Za-z_][\w/.@-]{0,60}){0,2})"
    r"['\"]?\s{0,20}(?:[:=]|[|│])\s{0,20}['\"]?(?:[A-Za-z_.\d]{1,30}\()?"
    rf"(?P<value>{NUMBER})(?:\s?/\s?(?P<divisor>\d+))?{END}",
    re.IGNORECASE,
)
"""A name of up to three words, and its value, also such as ``tensor(0.5)`` or ``9833/10000``."""
SCORES = (
    r"loss|acc(?:uracy)?(?:@\d+)?|ppl|perplexity|bleu|chrf|rouge\w*|f1|auc|auroc|map|m?iou|dice|"
    r"ms[el]e?|mae|rmse|nll|bp[cb]|wer|cer|err(?:or)?|reward|return|score|psnr|ssim|fid|lr|mfu|top\d"
)
WORD = re.compile(
    rf"(?<![\w/.@])(?P<name>(?:[A-Za-z_]+[ _/-])?(?:{SCORES}))\s{{1,20}}(?P<value>{NUMBER}){END}",
    re.IGNORECASE,
)
"""The name of a score, and its value behind spaces alone: ``step 250: train loss 1.23``."""
SET = re.compile(
    r"(?<![\w/.@])(?P<set>train(?:ing)?|val(?:id(?:ation)?)?|dev|test|eval(?:uation)?)"
    r"(?:\s{0,5}[:|\])}>]\s{0,5}|\s{1,5}-\s{1,5})(?=[A-Za-z])",
    re.IGNORECASE,
)
"""What stands before the scores of one set: ``train: loss 0.5 | val: loss 0.6``."""
OWN_SET = re.compile(
    r"(?<![A-Za-z])(?:train|val|dev|test|eval|lr|learning)|best(?![A-Za-z])", re.IGNORECASE
)
"""In the name of a score that belongs to no set before it."""
COUNT = r"(?:\d{1,3}(?:,\d{3})++|\d++)(?!\d|\s?%|,\d|[kKmM]\b)"
"""A whole number, also such as 1,500; neither a share such as 10 %, nor a rounded one such as 2k.
All its digits count, or none: 12.5 is not 1."""
DURATIONS = ("s/", "ms/", "sec/", "secs/", "seconds/", "min/", "time/", "per ", "per_")
NO_LETTER = r"(?<![A-Za-z])"
COUNTER = NO_LETTER + "".join(f"(?<!{NO_LETTER}{duration})" for duration in DURATIONS)
"""Before the name of a counter. ``ms/batch 13`` and ``time per epoch: 5`` are durations."""
TO_NUMBER = r"['\"]?\s{0,20}[|│:=#]?\s{0,20}['\"]?\[?\s{0,20}"
"""Between the name of a counter and its number."""
STEP = re.compile(
    rf"{COUNTER}(?:global[ _]?step|steps?|iter(?:ation)?s?|num_updates|updates?|batch|"
    rf"total_timesteps|timesteps){TO_NUMBER}(?P<step>{COUNT})(?:\.0{{1,2}}(?!\d))?"
    rf"(?:\s?/\s?(?P<steps>{COUNT}))?(?![\w.]\d)",
    re.IGNORECASE,
)
STEP_BEFORE = re.compile(
    rf"(?:^|[|\[])\s{{0,20}}(?P<step>{COUNT})\s?/\s{{0,20}}(?P<steps>{COUNT})\s{{1,5}}"
    r"(?:batches|steps|iter(?:ation)?s|updates)\b",
    re.IGNORECASE,
)
"""Such as ``| 200/2928 batches |``. ``evaluated 50/50 batches`` is no place in training."""
EPOCH = re.compile(
    rf"{COUNTER}epochs?{TO_NUMBER}(?P<epoch>\d++)(?!\s?%)"
    r"(?:\.0++(?!\d))?+(?:\s?/\s?(?P<epochs>\d+))?\]?(?![\w.]\d)"
    r"(?::?\s{0,20}\[\s{0,20}(?P<step>\d+)\s?/\s?(?P<steps>\d+))?",
    re.IGNORECASE,
)
PART_OF_EPOCH = re.compile(
    rf"{COUNTER}epoch{TO_NUMBER}\d{{1,9}}\.\d{{0,9}}[1-9]\d{{0,9}}(?![\w%]|\.\d)", re.IGNORECASE
)
"""Such as ``epoch 12.5``; ``epoch 12.5s`` is a duration."""
COUNTED = r"(?:epochs|steps|iters|iterations|updates|timesteps)"
SETTINGS = re.compile(
    r"\b\w*(?:Namespace|Config|Args|Arguments)\(.*"
    rf"|(?:max|num|n|total|warmup|eval|save|log|logging|accumulation)_{COUNTED}"
    r"(?<!num_updates)(?<!total_timesteps)['\"]?\s{0,20}[:=]\s{0,20}\d+",
    re.IGNORECASE,
)
"""How many steps or epochs there will be, such as ``Namespace(lr=0.1, epochs=10)`` and
``max_steps: 400``. They name no place in training."""
COUNTS = re.compile(
    rf"(?<![A-Za-z_]){COUNTED}['\"]?\s{{0,20}}[:=]\s{{0,20}}\d+(?!\s?/|\d)", re.IGNORECASE
)
"""Such as ``epochs=10``. They, too, are settings in a line without a score."""
SCORED = re.compile(rf"(?<![A-Za-z])(?!lr)(?:{SCORES})(?![A-Za-z])", re.IGNORECASE)
BAR = re.compile(
    r"(?:^|[:\s])(?:\d+%\|[^|]*\|\s*)?(?P<step>\d+)/(?P<steps>\d+)\s+(?:\[\d|[━=>.-]|\[[=>.])"
)
"""A progress bar of tqdm or Keras: ``45%|████▌  | 45/100 [00:12<00:15, loss=0.5]``."""
BAR_HEAD = re.compile(r"^[^|]*\d%\|[^|]*\|")
"""A bar up to its numbers. ``Epoch 2: 45%`` is no metric."""
OTHER_BAR = re.compile(
    r"^\W*(?:(?:down|up)?load|fetch|read|writ|sav|extract|prepar|preprocess|process|tokeniz|map|filter|"
    r"generat|build|eval|valid|val\b|test|predict|infer)[^|]*%\|",
    re.IGNORECASE,
)
"""A bar of other work, such as ``Loading weights: 100%|██| 25/25``. It is no place in training."""
NO_METRIC = {
    *STEP_NAMES,
    *TIME_NAMES,
    "steps",
    "batch",
    "epochs",
    "eta",
    "v_num",
    "line",
    "port",
    "cuda",
}


@dataclass(frozen=True)
class Position:
    """Where a line stands in training. ``steps``: those of an epoch. ``epochs``: if the line says
    how many there are, it counts them from 1. ``is_part``: it names a part of an epoch alone."""

    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    is_part: bool = False

    def after(self, earlier: "Position") -> "Position":
        """With the epoch of an earlier line if this one has only the step of a bar. A line with the
        epoch alone stands at the last step of this epoch."""
        if self.step is None and self.epoch is not None and self.epoch == earlier.epoch:
            return earlier
        if self.epoch is not None or self.steps is None:
            return self
        return Position(self.step, self.steps, earlier.epoch, earlier.epochs)

    @property
    def number(self) -> int | None:
        """The step that the line counts by; the epoch if it names no step."""
        if self.step is None:
            return self.epoch
        if self.steps is None or self.epoch is None:
            return self.step
        finished_epochs = self.epoch - 1 if self.epochs and self.epoch else self.epoch
        return finished_epochs * self.steps + self.step

    @property
    def is_epoch(self) -> bool:
        """Whether it names an epoch, or a part of one, and no step."""
        return self.is_part or (self.step is None and self.epoch is not None)

    @property
    def is_bar_alone(self) -> bool:
        """Whether it names a step of a bar, and no epoch."""
        return self.steps is not None and self.epoch is None

    @property
    def is_end(self) -> bool:
        """Whether the bar is full."""
        return self.steps is not None and self.step == self.steps


def plain_text(raw_line: bytes) -> str:
    """Without colors; "" for a line too long to be read by a person."""
    if len(raw_line) > LONGEST_LINE:
        return ""
    return ESCAPES.sub("", raw_line.decode("utf-8", "replace"))


def position_of(line: str) -> Position | None:
    """None for a line that names neither a step nor an epoch; without a number for one that names a
    part of an epoch alone."""
    if OTHER_BAR.match(line):
        return None
    line = _without_settings(line)
    epoch = EPOCH.search(line)
    step = _bar(line, epoch) or STEP.search(line) or STEP_BEFORE.search(line)
    if step is None and epoch is not None and epoch["step"] is not None:
        step = epoch
    if epoch is None and step is None:
        return Position(is_part=True) if PART_OF_EPOCH.search(line) else None
    return Position(
        step=_whole(step, "step"),
        steps=_whole(step, "steps"),
        epoch=_whole(epoch, "epoch"),
        epochs=_whole(epoch, "epochs"),
    )


def _bar(line: str, epoch: re.Match[str] | None) -> re.Match[str] | None:
    """A bar's numbers, unless they are those of the epoch, as in ``Epoch 2/3 - loss: 0.5``."""
    epoch_start = epoch.start("epoch") if epoch else None
    bars = (bar for bar in BAR.finditer(line) if bar.start("step") != epoch_start)
    return next(bars, None)


def has_score(line: str) -> bool:
    """Whether it names a score, such as a loss, whatever its value."""
    return SCORED.search(line) is not None


def _without_settings(line: str) -> str:
    """Without the numbers of all steps and epochs."""
    line = SETTINGS.sub("", line)
    return line if has_score(line) else COUNTS.sub("", line)


def points_in(line: str, position: Position) -> Iterator[WrittenPoint]:
    """Each name once."""
    record = json_object(line)
    if record is not None:
        yield from points_of(record, SOURCE, position.number)
        return
    message = BAR_HEAD.sub("", LOG_HEAD.sub("", line))
    sets = [*SET.finditer(message)]
    values: dict[str, float] = {}
    for match in sorted([*WORD.finditer(message), *PAIR.finditer(message)], key=re.Match.start):
        words = match["name"].split()
        if words[-1].lower() not in NO_METRIC:
            name = "_".join([*_set_before(match, sets, words), *words])
            values.setdefault(name, _value(match))
    for name, value in values.items():
        yield WrittenPoint(name, value, position.number, SOURCE, position.is_epoch)


def _set_before(
    match: re.Match[str], sets: Sequence[re.Match[str]], words: Sequence[str]
) -> list[str]:
    """The set that this score stands behind, if the line names several: the last one before it.
    None if the score's own words name one, or are those of the learning rate."""
    if len(sets) < 2 or OWN_SET.search(" ".join(words)):
        return []
    before = [each["set"] for each in sets if each.end() <= match.start()]
    return before[-1:]


def _whole(match: re.Match[str] | None, group: str) -> int | None:
    if match is None or match.groupdict().get(group) is None:
        return None
    return int(match[group].replace(",", ""))


def _value(match: re.Match[str]) -> float:
    """The number as it stands there: 87.5 for 87.5%. A fraction is divided."""
    divisor = match.groupdict().get("divisor")
    value = float(match["value"])
    return value / float(divisor) if divisor and float(divisor) else value
