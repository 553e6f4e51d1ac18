"""The command line's overrides: read with Hydra's grammar, checked against the schema, with hints
for typos."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sweeps.config.hydra import FIXED, Library, Override, parsed, swept_values
from sweeps.config.settings import VARY, at_home
from sweeps.config.tasks import known_tasks
from sweeps.problems import COMMAND_LINE, Problem, nearest, plain
from sweeps.trees import Values
from tracking.shell import for_shell, quoted
from tracking.study import study_folders

QUOTES = """put quotes around a value with special characters: "paths.runs='~/runs'\""""
LISTED_KEY = re.compile(r"([\w-]+(?:\.[\w-]+)+)\s*:\s*\[")
"""A key with its list in the text of ``sweep.vary``."""
HYDRAS_OWN = {
    "hydra/launcher": "trials run on Ray; cluster=NAME chooses where",
    "hydra/sweeper": "`allelse sweep row=base,big train.seed=1,2` sweeps by itself",
    "hydra": (
        "folders are set by paths.runs, paths.data and paths.checkpoints; "
        "`allelse logs` shows what trials print"
    ),
}
"""What to type instead, by the start of the key."""
EXAMPLE = "train.steps=100"


@dataclass
class Overrides:
    """Chosen options, such as scale=half, and values, such as model.n_heads=4.

    ``sweeps`` has the keys and groups with several values, which make rows and seeds.
    """

    choices: dict[str, str] = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    sweeps: dict[str, list[Any]] = field(default_factory=dict)

    def names_rows(self, seed: str | None) -> bool:
        """Whether the user names rows. ``seed`` is the task's key for a seed, which makes no
        rows."""
        has_values = not self.values.keys().isdisjoint({"sweep.rows", VARY})
        has_choices = not self.choices.keys().isdisjoint({"sweep", "row"})
        sweeps_rows = bool(self.sweeps.keys() - {seed})
        return has_values or has_choices or sweeps_rows

    def names_seeds(self, seed: str | None) -> bool:
        """Whether the user names seeds. ``seed`` is the task's key for a seed."""
        has_values = not self.values.keys().isdisjoint({"sweep.seeds", "sweep.base_seeds", seed})
        return has_values or "sweep" in self.choices or seed in self.sweeps

    def after(self, choices: dict[str, str], values: Values) -> "Overrides":
        """These on top of earlier ones."""
        return Overrides(choices | self.choices, values | self.values, self.sweeps)


def parse_overrides(
    overrides: Sequence[str],
    library: Library,
    recorded_rows: Sequence[str] = (),
    sweeps: bool = False,
) -> tuple[Overrides, list[Problem]]:
    """The parsed overrides, and their problems.

    ``row=`` also takes rows without a file: those in ``recorded_rows``, and any name if the
    overrides may make rows. ``sweeps`` says whether the verb takes several values of a key.
    """
    makes_rows = any(text.startswith((VARY, "sweep=")) for text in overrides)
    reader = _Reader(library, list(recorded_rows), sweeps, makes_rows)
    unreadable = []
    for text in overrides:
        override = parsed(text, library.folders)
        if override is not None and override.key_or_group:
            reader.read(text, override)
        else:
            unreadable.append(text)
    if unreadable:
        reader.refuse_unreadable(unreadable)
    return reader.overrides, reader.problems


class _Reader:
    """Reads overrides one by one into ``overrides`` and ``problems``.

    If two overrides contradict each other, the second one is refused.
    """

    def __init__(
        self, library: Library, recorded_rows: list[str], sweeps: bool, makes_rows: bool
    ) -> None:
        self.library = library
        self.recorded_rows = recorded_rows
        self.sweeps = sweeps
        self.makes_rows = makes_rows
        self.overrides = Overrides()
        self.problems: list[Problem] = []
        self.first_values: Values = {}

    def read(self, text: str, override: Override) -> None:
        """Keep the override, or its problems."""
        override.key_or_group = self.library.key_of(override.key_or_group)
        key = override.key_or_group
        typed_value = text.partition("=")[2].strip()
        if key == VARY and (repeated := _repeated_keys(text)):  # Hydra would keep the last list
            fault = f"gives {', '.join(repeated)} twice"
            self._refuse(key, fault, "give all values of a key in one list")
        elif self._is_supported(override, typed_value):
            is_sweep = override.is_sweep_override()
            is_group = key in self.library.groups
            texts = swept_values(override) if is_sweep else [typed_value]
            read_value = self._option if is_group else self._value
            values = [read_value(key, text) for text in texts]
            if is_group and None in values:
                return  # an option does not exist
            if is_sweep:
                self._keep(key, values, self.overrides.sweeps)
            elif is_group:
                self._keep(key, values[0], self.overrides.choices)
            else:
                self._keep(key, values[0], self.overrides.values)

    def _keep(self, key: str, value: Any, target: Values) -> None:
        """Set the value in ``target``, unless the key already has another value."""
        first_value = self.first_values.setdefault(key, value)
        if repr(first_value) == repr(value):
            target[key] = value
        else:
            target.pop(key, None)
            fault = f"is given twice, as {first_value} and as {value}"
            self._refuse(key, fault, "give it once")

    def refuse_unreadable(self, texts: list[str]) -> None:
        """Refuse them together: they may be parts of one text, which the shell split at its
        spaces."""
        key = next(iter(self.library.schema.short_names))
        allowed = f"must look like {key}=VALUE, such as {EXAMPLE}"
        are_plain = all(re.fullmatch(r"[\w./-]+", text) for text in texts)
        if not are_plain:
            allowed = f"{allowed}; {QUOTES}"
        self._refuse(" ".join(texts), "is not key=value", allowed, self._suggestion(texts[0]))

    def _suggestion(self, text: str) -> str | None:
        """What a text without a readable key most likely means; None if nothing comes close."""
        key, equals, value = text.partition("=")
        if equals:
            own_name = other_name(key, self.library.keys)
            return own_name and f"{own_name}={value}"
        if text in (*self.library.keys, *self.library.groups):
            return f"{text}=VALUE"
        suggestions = self._named_values()
        name = nearest(Path(re.sub(r"-s\d+$", "", text)).stem, suggestions)
        return name and suggestions[name]

    def _named_values(self) -> dict[str, str]:
        """The override for the name of each recorded study, task and option."""
        folders = self.library.folders
        runs = folders.here / at_home(str(self.overrides.values.get("paths.runs", "runs")))
        overrides = {
            folder.name: f"sweep.name={quoted(folder.name)}" for folder in study_folders(runs)
        }
        for name in known_tasks(folders.here):
            overrides[name] = f"task={name}"
        for group in self.library.groups:
            for name in folders.options(group):
                overrides[name] = f"{group}={name}"
        return overrides

    def _is_supported(self, override: Override, typed_value: str) -> bool:
        """Whether the key and the form of the override are right. Its problem is kept; values are
        not checked."""
        key = override.key_or_group
        n_problems = len(self.problems)
        if override.is_hydra_override():
            allowed = next(words for start, words in HYDRAS_OWN.items() if key.startswith(start))
            self._refuse(key, "is a setting of Hydra's own program", allowed)
        elif override.is_delete():
            self._refuse(key, "cannot be removed", "set another value")
        elif key not in (*self.library.groups, *self.library.keys):
            suggestion, allowed = unknown_key(self.library.keys, key, self.library.groups)
            self._refuse(key, "is not a key", allowed, suggestion)
        elif override.package is not None:
            fault = "names a package after @, but each group has a fixed package"
            allowed = f"remove @{override.package}"
            self._refuse(f"{key}@{override.package}", fault, allowed, f"{key}={typed_value}")
        elif override.is_add() or override.is_force_add():
            fault = 'begins with "+", which adds a key'
            allowed = "every key already exists; remove the +"
            self._refuse(key, fault, allowed, f"{key}={typed_value}")
        elif override.is_sweep_override():
            self._check_sweep(key, override)
        return len(self.problems) == n_problems

    def _check_sweep(self, key: str, override: Override) -> None:
        """Refuse several values of a key if they cannot make rows or seeds."""
        group = key.split(".")[0]
        if not self.sweeps:
            allowed = "give one value; only `plan` and `sweep` take several"
            self._refuse(key, "lists several values", allowed)
        elif override.is_interval_sweep():
            self._refuse(
                key, "is an interval", "list its values, such as 0.1,0.2, or use range(1,4)"
            )
        elif group in FIXED or group == "paths":
            takes_list = key in ("sweep.rows", "sweep.seeds", "sweep.base_seeds")
            list_form = f"give one list, such as {key}=[…]"
            allowed = list_form if takes_list else "give one value for all rows"
            self._refuse(key, "lists several values, but is the same for all rows", allowed)

    def _option(self, group: str, text: str) -> str | None:
        """The option without quotes; None if it does not exist, which is refused."""
        name = text.strip("'\"")
        if group == "row" and self.makes_rows:
            return name
        recorded = self.recorded_rows if group == "row" else []
        problem = self.library.folders.unknown_option(group, name, COMMAND_LINE, recorded)
        if problem is None:
            return name
        suggestion = problem.nearest and f"{group}={problem.nearest}"
        self._refuse(group, problem.found, problem.allowed, suggestion)
        return None

    def _value(self, key: str, text: str) -> Any:
        """The value as Hydra reads it. A name made of digits stays text."""
        override = parsed(f"{key}={text}")
        value: Any = override.value() if override else text
        takes_text = self.library.keys[key] in (str, str | None)
        return text if takes_text and isinstance(value, int | float) else value

    def _refuse(self, key: str, fault: str, allowed: str, suggestion: str | None = None) -> None:
        nearest_text = suggestion and for_shell(suggestion)
        self.problems.append(Problem(key, fault, allowed, nearest_text, COMMAND_LINE))


def _repeated_keys(text: str) -> list[str]:
    """The keys that have several lists in the text of ``sweep.vary``."""
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
    "sweep.max_failures": "retries max_retries",
    "tracking.uri": "mlflow mlflow_uri",
    "tracking.experiment": "exp project",
    "paths.runs": "output output_dir out_dir dir save_dir log_dir results_dir",
    "paths.data": "data_dir data_path cache_dir",
}
"""Other names of our keys and groups: names that do not look like ours."""

NOTES = {
    "train.lr_factor": "train.lr_factor multiplies the paper's learning rate; 1.0 is the paper's",
    "train.tokens_per_batch": "train.tokens_per_batch counts tokens, not sentences",
    "train.steps": "train.steps counts steps, not epochs",
    "model.d_model": (
        "model.d_model is the width, and model.d_ff is the inner width of the feed-forward layers"
    ),
}
"""How our key may differ from what its other names mean."""


def other_name(key: str, known_keys: Collection[str]) -> str | None:
    """The known key that has this other name; None if none has.

    The complete name is looked up first, then its last component.
    """
    for name in (key, _last(key)):
        own_name = _other_names().get(plain(name))
        if own_name in known_keys:
            return own_name
    return None


def unknown_key(
    known_keys: Collection[str], key: str, groups: Iterable[str] = ()
) -> tuple[str | None, str]:
    """The key or group that an unknown key most likely means, and what is allowed instead."""
    is_branch = any(name.startswith(f"{key}.") for name in known_keys)
    parent = next((name for name in known_keys if key.startswith(f"{name}.")), None)
    synonym = parent or other_name(key, [*known_keys, *groups])
    suggestion = None
    if not is_branch:
        suggestion = synonym or _similar_key(known_keys, key, groups)
    if synonym in NOTES:
        return suggestion, NOTES[synonym]
    branch = key if is_branch else (suggestion or key).rpartition(".")[0]
    siblings = [
        name.removeprefix(f"{branch}.") for name in known_keys if name.startswith(f"{branch}.")
    ]
    if not siblings:
        return suggestion, "`allelse config` shows every key"
    return suggestion, f"keys under {branch} are {', '.join(siblings)}"


def _similar_key(known_keys: Collection[str], key: str, groups: Iterable[str]) -> str | None:
    """The key with the same last component, or else the one that looks most alike."""
    keys_by_last = {_last(name): name for name in known_keys}
    same_last = keys_by_last.get(_last(key))
    if same_last:
        return same_last
    similar = nearest(key, [*groups, *known_keys])
    if similar:
        return similar
    similar_last = nearest(_last(key), keys_by_last)
    return keys_by_last[similar_last] if similar_last else None


def _last(key: str) -> str:
    """The last component of a dotted key."""
    return key.rpartition(".")[2]


@cache
def _other_names() -> dict[str, str]:
    """Our key for each other name."""
    keys = {}
    for key, names in OTHER_NAMES.items():
        for name in names.split():
            keys[plain(name)] = key
    return keys
