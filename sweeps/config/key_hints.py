"""What an unknown key most likely means: a key with this other name, or one that looks like it."""

from collections.abc import Collection
from functools import cached_property

from sweeps.config.schema import Schema
from sweeps.fields import OtherNames
from sweeps.function_task import GROUP
from sweeps.problems import UNKNOWN_KEY, Problem, nearest, plain

PLATFORM_NAMES = {
    "data": OtherNames("datasets corpus"),
    "cluster": OtherNames("machine device"),
    "cluster.workers": OtherNames("nproc world_size processes"),
    "cluster.gpus_per_worker": OtherNames("gpu gpus num_gpus n_gpus"),
    "cluster.cpus_per_worker": OtherNames("cpu cpus num_cpus threads"),
    "sweep.name": OtherNames("name study study_name run_name run_id"),
    "sweep.rows": OtherNames("variants"),
    "sweep.seeds": OtherNames("seed random_seed"),
    "sweep.vary": OtherNames("params variations"),
    "sweep.max_failures": OtherNames("retries max_retries"),
    "tracking.uri": OtherNames("mlflow mlflow_uri"),
    "tracking.experiment": OtherNames("exp project"),
    "paths.runs": OtherNames("output output_dir out_dir dir save_dir log_dir results_dir"),
    "paths.data": OtherNames("data_dir data_path cache_dir"),
}
"""Other names of the keys and groups that every task has. A task names those of its own keys."""


class KeyHints:
    """Finds the key that an unknown one means, among the ``keys`` of a task and of the platform."""

    def __init__(self, schema: Schema, keys: Collection[str]) -> None:
        self.schema = schema
        self.keys = keys
        self._other_names = PLATFORM_NAMES | schema.other_names

    def unknown_key(self, key: str, groups: Collection[str] = ()) -> Problem:
        """The refusal of an unknown key, with what it most likely means: a key, or one of
        ``groups``."""
        is_branch = any(name.startswith(f"{key}.") for name in self.keys)
        parent = next((name for name in self.keys if key.startswith(f"{name}.")), None)
        named = parent or self.other_name(key, groups)
        similar = None if is_branch else named or self._similar_key(key, groups)
        if named in self._other_names and self._other_names[named].note:
            return Problem(key, UNKNOWN_KEY, self._other_names[named].note, similar)
        branch = key if is_branch else (similar or key).rpartition(".")[0]
        return Problem(key, UNKNOWN_KEY, self._keys_under(branch), similar)

    def other_name(self, key: str, groups: Collection[str] = ()) -> str | None:
        """The key or group that has this other name; None if none has.

        The complete name is looked up first, then its last component.
        """
        for name in (key, _last(key)):
            own_name = self._own_names.get(plain(name))
            if own_name in self.keys or own_name in groups:
                return own_name
        return None

    @cached_property
    def _own_names(self) -> dict[str, str]:
        """Our key for each other name."""
        own_names = {}
        for key, other_names in self._other_names.items():
            for name in other_names.text.split():
                own_names[plain(name)] = key
        return own_names

    def _keys_under(self, branch: str) -> str:
        """The keys of a group. A key without a group may be meant as an argument of the task."""
        if not branch and GROUP in self.schema.groups:
            branch = GROUP
        prefix = f"{branch}."
        keys = [key for key in self.keys if key.startswith(prefix) and key != self.schema.seed]
        if keys:
            names = ", ".join(key.removeprefix(prefix) for key in keys)
            return f"keys under {branch} are {names}"
        if branch == GROUP and GROUP in self.schema.groups:
            return f"{self.schema.task.name} has no keys under {GROUP} yet"
        return "`allelse config` shows every key"

    def _similar_key(self, key: str, groups: Collection[str]) -> str | None:
        """The key with the same last component, or else the one that looks most alike. Its last
        component must look alike too: a group in common means nothing."""
        keys_by_last = {_last(name): name for name in self.keys}
        same_last = keys_by_last.get(_last(key))
        if same_last:
            return same_last
        alike = [name for name in (*groups, *self.keys) if nearest(_last(key), [_last(name)])]
        similar_last = nearest(_last(key), keys_by_last)
        return nearest(key, alike) or keys_by_last.get(similar_last or "")


def _last(key: str) -> str:
    """The last component of a dotted key."""
    return key.rpartition(".")[2]
