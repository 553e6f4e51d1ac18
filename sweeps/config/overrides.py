"""The command line's overrides: read by Hydra's grammar, checked against the schema; what a mistyped one means."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sweeps.config.hydra import FIXED, Library, Override, listed, parsed
from sweeps.config.settings import MAKERS, at_home
from sweeps.config.tasks import known_tasks
from sweeps.schema import COMMAND_LINE, Problem, nearest, plain
from tracking.study import study_folders
from tracking.words import for_shell, quoted

QUOTES = """put quotes around a value with special characters: "paths.runs='~/runs'\""""
LISTED_KEY = re.compile(r"([\w-]+(?:\.[\w-]+)+)\s*:\s*\[")
"""A key with its list in the text of ``sweep.vary`` or ``sweep.grid``."""
HYDRAS_OWN = {
    "hydra/launcher": "trials run on Ray; cluster=NAME chooses where",
    "hydra/sweeper": "`allelse sweep row=base,big train.seed=1,2` sweeps by itself",
    "hydra": "places are paths.runs, paths.data and paths.checkpoints; `allelse logs` shows what trials print",
}
"""What to type instead, by the start of the key."""
EXAMPLE = "train.steps=100"


@dataclass
class Overrides:
    """Chosen options, such as scale=half, and values, such as model.n_heads=4.

    ``sweeps`` has the keys and groups that were given several values, which make rows and seeds.
    """

    choices: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    sweeps: dict[str, list[Any]] = field(default_factory=dict)

    def names_rows(self, seed: str | None) -> bool:
        """Whether rows are typed; ``seed`` is the task's own key for one, which makes no rows."""
        named = {"sweep.rows", *MAKERS} & self.values.keys() or {"sweep", "row"} & self.choices.keys()
        return bool(named or self.sweeps.keys() - {seed})

    def names_seeds(self, seed: str | None) -> bool:
        """Whether the seeds are typed; ``seed`` is the task's own key for one."""
        listed = {"sweep.seeds", "sweep.base_seeds"} & self.values.keys()
        return bool(listed) or "sweep" in self.choices or seed in self.values or seed in self.sweeps

    def after(self, choices: dict[str, str], values: dict[str, Any]) -> "Overrides":
        """These on top of earlier ones."""
        return Overrides(choices | self.choices, values | self.values, self.sweeps)


def parse_overrides(
    overrides: Sequence[str], library: Library, recorded_rows: Sequence[str] = (), sweeps: bool = False
) -> tuple[Overrides, list[Problem]]:
    """The parsed overrides, and their problems. ``row=`` also takes rows that only a study records or that are made.

    ``sweeps``: the verb takes several values of a key.
    """
    reader = _Reader(
        library, list(recorded_rows), sweeps, any(text.startswith((*MAKERS, "sweep=")) for text in overrides)
    )
    read = [(text, parsed(text, library.folders)) for text in overrides]
    for text, override in read:
        if override is not None and override.key_or_group:
            reader.read(text, override)
    reader.refuse_unreadable([text for text, override in read if override is None or not override.key_or_group])
    return reader.found, reader.problems


class _Reader:
    """Reads one override after another, and keeps the first of two that contradict each other."""

    def __init__(self, library: Library, recorded_rows: list[str], sweeps: bool, makes_rows: bool) -> None:
        self.library = library
        self.recorded_rows = recorded_rows
        self.sweeps = sweeps
        self.makes_rows = makes_rows
        self.found, self.problems = Overrides(), list[Problem]()
        self.first: dict[str, Any] = {}

    def read(self, text: str, override: Override) -> None:
        key = override.key_or_group
        typed = text.partition("=")[2].strip()
        if key in MAKERS and (twice := _repeated(text)):  # Hydra would keep the last
            self._refuse(key, f"gives {', '.join(twice)} twice", "give all values of a key in one list")
        elif self._is_supported(override, typed):
            group = key in self.library.groups
            names = listed(override) if override.is_sweep_override() else [typed]
            values = [self._option(key, name) if group else self._value(key, name) for name in names]
            if None not in values or not group:
                self._keep(key, group, values, override.is_sweep_override())

    def refuse_unreadable(self, texts: list[str]) -> None:
        """One reason for all of them: they may be parts of one text, which the shell split at its blanks."""
        if texts:
            key = next(iter(self.library.schema.short_names))
            plainly = all(re.fullmatch(r"[\w./-]+", text) for text in texts)
            allowed = f"must look like {key}=VALUE, such as {EXAMPLE}"
            if not plainly:
                allowed = f"{allowed}; {QUOTES}"
            self._refuse(" ".join(texts), "is not key=value", allowed, self._meant(texts[0]))

    def _meant(self, text: str) -> str | None:
        """What a text most likely means: a known key, or an option, a task or a recorded study named alone."""
        key, mark, value = text.partition("=")
        if mark:
            meant = other_name(key, self.library.keys)
            return meant and f"{meant}={value}"
        if text in (*self.library.keys, *self.library.groups):
            return f"{text}=VALUE"
        runs = self.library.folders.here / at_home(str(self.found.values.get("paths.runs", "runs")))
        named = {folder.name: f"sweep.name={quoted(folder.name)}" for folder in study_folders(runs)}
        named |= {name: f"task={name}" for name in known_tasks(self.library.folders.here)}
        for group in self.library.groups:
            named |= {name: f"{group}={name}" for name in self.library.folders.options(group)}
        near = nearest(Path(re.sub(r"-s\d+$", "", text)).stem, named)
        return near and named[near]

    def _keep(self, key: str, group: bool, values: list[Any], several: bool) -> None:
        there: dict[str, Any] = self.found.sweeps if several else self.found.choices if group else self.found.values
        value = values if several else values[0]
        first = self.first.setdefault(key, value)
        if repr(first) == repr(value):
            there[key] = value
        else:
            there.pop(key, None)
            self._refuse(key, f"is given twice, as {first} and as {value}", "give it once")

    def _is_supported(self, override: Override, typed: str) -> bool:
        """Whether nothing is wrong with an override by itself, but for its values; otherwise the problem is kept."""
        key = override.key_or_group
        before = len(self.problems)
        if override.is_hydra_override():
            instead = next(words for start, words in HYDRAS_OWN.items() if key.startswith(start))
            self._refuse(key, "is a setting of Hydra's own program", instead)
        elif override.is_delete():
            self._refuse(key, "cannot be removed", "set another value")
        elif key not in (*self.library.groups, *self.library.keys):
            meant, allowed = unknown_key(self.library.keys, key, self.library.groups)
            self._refuse(key, "is not a key", allowed, meant)
        elif override.package is not None:
            found = "names a package after @, but each group has its place"
            self._refuse(f"{key}@{override.package}", found, f"remove @{override.package}", f"{key}={typed}")
        elif override.is_add() or override.is_force_add():
            found = 'begins with "+", which adds a key'
            allowed = "every key already exists; remove the +"
            self._refuse(key, found, allowed, f"{key}={typed}")
        elif override.is_sweep_override():
            self._check_sweep(key, override)
        return len(self.problems) == before

    def _check_sweep(self, key: str, override: Override) -> None:
        """Whether several values of this key make rows or seeds here."""
        if not self.sweeps:
            self._refuse(key, "lists several values", "give one value; only `plan` and `sweep` take several")
        elif override.is_interval_sweep():
            self._refuse(key, "is an interval", "list its values, such as 0.1,0.2, or use range(1,4)")
        elif key.split(".")[0] in FIXED or key.split(".")[0] == "paths":
            lists = key in ("sweep.rows", "sweep.seeds", "sweep.base_seeds")
            allowed = f"give one list, such as {key}=[…]" if lists else "give one value for all rows"
            self._refuse(key, "lists several values, but is the same for all rows", allowed)

    def _option(self, group: str, name: str) -> str | None:
        """The option, without quotes; None if it is unknown."""
        name = name.strip("'\"")
        if group == "row" and self.makes_rows:
            return name
        more = self.recorded_rows if group == "row" else []
        problem = self.library.folders.unknown_option(group, name, COMMAND_LINE, more)
        if problem:
            self._refuse(group, problem.found, problem.allowed, problem.nearest and f"{group}={problem.nearest}")
        return None if problem else name

    def _value(self, key: str, text: str) -> Any:
        """The value; a name of digits stays a name."""
        override = parsed(f"{key}={text}")
        value: Any = override.value() if override else text
        takes_text = self.library.keys[key] in (str, str | None)
        return text if takes_text and isinstance(value, int | float) else value

    def _refuse(self, key: str, found: str, allowed: str, meant: str | None = None) -> None:
        self.problems.append(Problem(key, found, allowed, meant and for_shell(meant), COMMAND_LINE))


def _repeated(text: str) -> list[str]:
    keys = LISTED_KEY.findall(text)
    return sorted({key for key in keys if keys.count(key) > 1})


OTHER_NAMES = {
    "model.n_layers": "depth blocks",
    "model.d_model": "hidden hidden_size dim width embed_dim embedding_dim n_embd",
    "model.d_ff": "ffn_dim feedforward dim_feedforward intermediate_size",
    "model.n_heads": "attention_heads num_attention_heads h",
    "model.d_k": "key_dim d_head head_dim",
    "model.p_drop": "dropout dropout_rate",
    "model.positions": "positional_encoding pos_emb",
    "model.max_positions": "max_len max_length max_seq_len seq_len block_size context_length",
    "train.steps": "step iterations max_iters updates epoch epochs num_epochs max_epochs",
    "train.label_smoothing": "ε_ls eps_ls epsilon eps ls",
    "train.evaluate_every": "eval_interval eval_steps val_every",
    "train.checkpoint_every": "save_every save_interval save_steps",
    "train.keep_checkpoints": "keep_last save_total_limit max_to_keep",
    "train.lr_factor": "lr learning_rate max_lr base_lr eta",
    "train.tokens_per_batch": "batch batch_size bs max_tokens global_batch_size",
    "decode.alpha": "α length_penalty lenpen lp",
    "decode.average_checkpoints": "average averaging avg_checkpoints",
    "data": "datasets corpus",
    "cluster": "machine device",
    "cluster.workers": "nproc world_size processes",
    "cluster.gpus_per_worker": "gpu gpus num_gpus n_gpus",
    "cluster.cpus_per_worker": "cpu cpus num_cpus threads",
    "sweep.name": "name study study_name run_name run_id",
    "sweep.rows": "variants",
    "sweep.seeds": "seed random_seed",
    "sweep.vary": "params variations",
    "sweep.grid": "grid_search param_grid product",
    "sweep.max_failures": "retries max_retries",
    "tracking.uri": "mlflow mlflow_uri",
    "tracking.experiment": "exp project",
    "paths.runs": "output output_dir out_dir dir save_dir log_dir results_dir",
    "paths.data": "data_dir data_path cache_dir",
}
"""Our key or group: other names, which do not look like it."""

NOTES = {
    "train.lr_factor": "train.lr_factor multiplies the paper's learning rate; 1.0 is the paper's",
    "train.tokens_per_batch": "train.tokens_per_batch counts tokens, not sentences",
    "train.steps": "train.steps counts steps, not epochs",
    "model.d_model": "model.d_model is the width, and model.d_ff is the inner width of the feed-forward layers",
}
"""Our key: how it may differ from what its other names mean."""


def other_name(key: str, known: Collection[str]) -> str | None:
    """The known key that has this other name; the whole name counts before its last component."""
    found = (_others().get(plain(name), "") for name in (key, _last(key)))
    return next((name for name in found if name in known), None)


def unknown_key(known: Collection[str], key: str, groups: Iterable[str] = ()) -> tuple[str | None, str]:
    """The key or group that an unknown key most likely means, and what is allowed in its place."""
    inside = any(name.startswith(f"{key}.") for name in known)
    above = next((name for name in known if key.startswith(f"{name}.")), None)
    named = above or other_name(key, [*known, *groups])
    lasts = {_last(name): name for name in known}
    similar = lasts.get(_last(key)) or nearest(key, [*groups, *known]) or lasts.get(nearest(_last(key), lasts) or "")
    meant = None if inside else named or similar
    branch = key if inside else (meant or key).rpartition(".")[0]
    siblings = [name.removeprefix(f"{branch}.") for name in known if name.startswith(f"{branch}.")]
    usual = f"keys under {branch} are {', '.join(siblings)}" if siblings else "`allelse config` shows every key"
    return meant, NOTES.get(named or "", usual)


def _last(key: str) -> str:
    return key.rpartition(".")[2]


@cache
def _others() -> dict[str, str]:
    return {plain(name): key for key, names in OTHER_NAMES.items() for name in names.split()}
