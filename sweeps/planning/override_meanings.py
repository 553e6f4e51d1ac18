"""The override that a mistyped text most likely means, in the form to type."""

from dataclasses import dataclass

from sweeps.planning.made_text import MAKERS, lists_meant
from sweeps.planning.override_text import corrected, readable
from sweeps.planning.suggestions import Suggestion, known_keys, option_meant, takes_list, unknown_key
from sweeps.planning.yaml_files import Library


@dataclass(frozen=True)
class Meanings:
    """``one_row`` is for verbs that take one row and one seed: it decides what ``seed=2`` means."""

    library: Library
    one_row: bool

    def known(self, key: str) -> bool:
        return key in self.library.groups or key in known_keys(self.library.tree)

    def unknown(self, key: str, text: str) -> tuple[Suggestion | None, str]:
        """What an unknown key means, and what is allowed in its place."""
        return unknown_key(self.library.tree, key, text, self.library.all_options, self.one_row)

    def of_text(self, text: str) -> str | None:
        """The override that is meant by a text that cannot be read: a bare name, or almost key=value."""
        found = corrected(text)
        if found is None:
            return self._bare(text)
        key, value = found
        if key in MAKERS:
            return lists_meant(key, text.partition(key)[2].lstrip("=: "))
        if not self.known(key):
            meant, _ = self.unknown(key, value)
            if meant is None or not meant.same_value:
                return meant.key if meant else None
            key, _, replaced = meant.override.partition("=")
            value = replaced or value
        return readable(key, value) if value else None

    def listing(self, key: str, text: str) -> str | None:
        """The override that is meant by values with commas, as Hydra's own sweeps take them."""
        if key in MAKERS:
            return lists_meant(key, text)
        if takes_list(self.library.tree, key):
            return f"{key}=[{text}]"
        varies = key.split(".")[0] in self.library.row_groups and "." in key and not self.one_row
        return lists_meant(MAKERS[0], f"{key}: {text}") if varies and "(" not in text else None

    def choosing(self, group: str, option: str) -> str:
        """The override that chooses an option. A sweep lists its rows."""
        return f"sweep.rows=[{option}]" if group == "row" and not self.one_row else f"{group}={option}"

    def _bare(self, text: str) -> str | None:
        """The override that is meant by the bare name of a row, a trial, another option or a study."""
        for group in sorted(self.library.groups, key=lambda group: (group != "row", group != "scale")):
            option = option_meant(group, text, self.library.options(group), similar=False)
            if option:
                return self.choosing(group, option)
        return None
