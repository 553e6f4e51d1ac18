"""A drafted definition as the text of ``conf/task/NAME.yaml``."""

import json
import shlex
from collections.abc import Iterator, Sequence

import yaml

from sweeps.command_task.draft import Draft, DraftedWord

HEAD = """\
# A command as a task. It runs without a shell, in the folder of this study's code.
# {{args.lr}} is a key below, {{seed}} the trial's seed, {{out}} a folder of its own: docs/your-own.md
"""
METRICS = """\
metrics:  # name one at least; `allelse probe` lists what the command writes
  # accuracy: {better: up, set: test}
"""
STEPS = """\
# steps: 1000  # of the whole run; `allelse plan --calibrate` needs it to predict hours
"""
MORE = """\
# checkpoint: checkpoint-*  # below {out}; with {resume} in the command, a lost trial goes on from it
# timeout: 2 h
"""


def text_of_draft(draft: Draft) -> str:
    """The file. Its metrics are still to be named."""
    parts = [HEAD.replace("{{", "{").replace("}}", "}"), "".join(_command(draft))]
    if draft.keys:
        parts.append("args:\n" + "".join(f"  {key.key}: {_value(key)}\n" for key in draft.keys))
    parts.append(METRICS)
    parts.append(f'steps: "{draft.steps}"\n' if draft.steps else STEPS)
    if draft.data:
        parts.append(f"data: {json.dumps(list(draft.data), ensure_ascii=False)}\n")
    if draft.env:
        lines = [f"  {name}: {json.dumps(text)}\n" for name, text in draft.env.items()]
        parts.append(f"env:\n{''.join(lines)}")
    return "".join([*parts, MORE])


def _command(draft: Draft) -> Iterator[str]:
    """One line per flag. A word with a line break needs a list."""
    groups: list[Sequence[str]] = [draft.program, *(drafted.words for drafted in draft.drafted)]
    words = [word for group in groups for word in group]
    if any("\n" in word for word in words):
        yield f"command: {json.dumps(words, ensure_ascii=False)}\n"
        return
    yield "command: >-\n"
    for group in groups:
        yield f"  {' '.join(map(_quoted, group))}\n"


def _quoted(word: str) -> str:
    """The word in quotes, if it would be split without them."""
    try:
        is_whole = shlex.split(word) == [word]
    except ValueError:
        is_whole = False
    return word if is_whole else shlex.quote(word)


def _value(key: DraftedWord) -> str:
    """As typed, if it is no text; a text as YAML has it."""
    if not isinstance(key.value, str):
        return key.text
    return yaml.safe_dump(key.text, allow_unicode=True, width=10_000).splitlines()[0]
