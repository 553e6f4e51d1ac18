"""``python -m benchmarks.decoding``: our beam search and its peers on one CPU thread.

Base with random weights and outputs of one length; with ``--trial`` also a trained model, with
outputs that end by themselves. Nothing is timed unless 99 % of all programs' outputs in float32
are ours.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import sacrebleu
import torch
import typer
import yaml
from rich.console import Console
from torch import Tensor

from benchmarks import record
from benchmarks.decoders import (
    CTRANSLATE2,
    MARIAN,
    OURS,
    Decoder,
    Outputs,
    ctranslate2_decoder,
    marian,
    ours,
    without_cache,
)
from benchmarks.record import Result
from benchmarks.sheet import MET, MISSED, Sheet, to_markdown, to_terminal
from benchmarks.timing import Rounds, in_rounds
from benchmarks.workloads import prepared_text, settings_of
from sweeps.checkpoints.reader import CheckpointReader
from sweeps.fields import parse
from sweeps.problems import Problem, RefusedError
from tracking.card import Card
from tracking.trial import TrialFolder
from transformer.config import DecodeConfig, TrialConfig
from transformer.data.batches import by_length, cut, pad
from transformer.data.prepared import ParallelSet, Prepared
from transformer.data.vocabulary import EOS
from transformer.model.encoder_decoder import Transformer

SEED = 1
VOCAB_SIZE = 8000
SENTENCES = 64
LENGTH = 16
TOKENS_PER_BATCH = 2000
WITHOUT_CACHE = 16  # sentences at most, since every step starts from the first piece
ENOUGH_ALIKE = 0.99
GOALS = {  # our sentences/s divided by a peer's
    ("bf16", CTRANSLATE2, "fp32"): 1.1,
    ("bf16", MARIAN, "fp32"): 2.8,
}


@dataclass(frozen=True)
class Text:
    """The references, sentence by sentence, and the corpus with their vocabulary."""

    prepared: Prepared
    references: list[str]

    def bleu(self, outputs: Outputs) -> float:
        """13a, cased."""
        hypotheses = self.prepared.vocabulary.decode(outputs)
        return float(sacrebleu.corpus_bleu(hypotheses, [self.references]).score)


@dataclass(frozen=True)
class Workload:
    """A model, sources in batches [B, S], and the decode settings; ``has_goals`` if the goals were
    set for it."""

    name: str
    model: Transformer
    batches: list[Tensor]
    decode: DecodeConfig
    text: Text | None = None
    has_goals: bool = False

    @property
    def sentences(self) -> int:
        return sum(map(len, self.batches))


def main(
    trial: Annotated[
        Path | None, typer.Option(help="Folder of a trained trial; its first test set is decoded.")
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Number of sentences of that set.")] = 200,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds per program.")] = 5,
) -> None:
    """Measure decoding on one CPU thread: ours, CTranslate2, HF Marian."""
    torch.set_num_threads(1)
    console = Console(highlight=False)
    console.width = max(console.width, 120)
    began = time.perf_counter()
    try:
        result = record.provenance("benchmarks.decoding", ["ctranslate2", "transformers"])
        base = settings_of(["scale=paper"]).config
        workloads = [one_length(base, VOCAB_SIZE, SENTENCES, LENGTH)]
        workloads += [natural_ends(trial, sentences)] if trial else []
        result["decoding"] = [
            line
            for workload in workloads
            for line in measure(workload, entered(workload), Rounds(rounds, rounds))
        ]
    except RefusedError as error:
        Console(stderr=True).print(
            f"[bold red]Refused[/]: {error}\nNo other measurement was made.", highlight=False
        )
        raise typer.Exit(2) from None
    result["seconds"] = time.perf_counter() - began
    for sheet in sheets(result["decoding"]):
        console.print(to_terminal(sheet))
    path = record.write("decoding", document(result), result, [], record.RESULTS)
    console.print(f"Written: [bold]{path}[/]", soft_wrap=True)


@torch.no_grad()
def one_length(trial: TrialConfig, vocab_size: int, sentences: int, length: int) -> Workload:
    """Random weights with probability zero for end-of-sentence: every output is as long as its
    source."""
    random = torch.Generator().manual_seed(SEED)
    torch.manual_seed(SEED)
    model = Transformer(trial.model, vocab_size).eval()
    norm = model.decoder[-1].get_submodule("feed_forward_residual.norm")
    norm.get_parameter("weight")[0] = 0.0
    norm.get_parameter("bias")[0] = 10.0
    model.embedding[:, 0] = 0.0
    model.embedding[EOS, 0] = -1000.0
    source = torch.randint(EOS + 1, vocab_size, (sentences, length), generator=random)
    decode = replace(trial.decode, alpha=0.0, max_extra=0)
    return Workload("one length", model, [source], decode, has_goals=vocab_size == VOCAB_SIZE)


def natural_ends(folder: Path, sentences: int) -> Workload:
    """The last checkpoint of a trial, and the first sentences of its first test set, in batches of
    similar length."""
    trial, data_folder = _read_trial(folder)
    prepared = prepared_text(trial, data_folder)
    model = Transformer(trial.model, len(prepared.vocabulary)).eval()
    model.load_state_dict(_last_weights(folder))
    name = next((name for name in prepared.evaluation_sets if name != "dev"), "dev")
    source = prepared.pairs(name).source
    references = prepared.references(name)
    pairs = ParallelSet(source, source)
    order = by_length(pairs, np.arange(min(sentences, len(source))))
    batches = [pad(source, places) for places in cut(pairs, order, TOKENS_PER_BATCH)]
    text = Text(prepared, [references[index] for index in order])
    return Workload(f"natural ends, {name}", model, batches, replace(trial.decode, alpha=0.0), text)


def entered(workload: Workload) -> list[Decoder]:
    """Ours, first in float32, and the peers."""
    model = workload.model
    decode = workload.decode
    return [
        *(ours(model, arithmetic, decode) for arithmetic in ("fp32", "bf16")),
        ctranslate2_decoder(model, decode),
        *(marian(model, arithmetic, decode) for arithmetic in ("fp32", "bf16")),
    ]


def measure(
    workload: Workload, decoders: Sequence[Decoder], rounds: Rounds
) -> list[dict[str, Any]]:
    """One line per program: the number of outputs equal to the first program's, and the CPU seconds
    of each round.

    Raises RefusedError if programs differ in float32, since they would not do the same work.
    """
    outputs = [decoder.translate_all(workload.batches) for decoder in decoders]
    equal_counts = [_same(output, outputs[0]) for output in outputs]
    _check(workload, decoders, equal_counts)
    timings = in_rounds(
        [partial(decoder.translate_all, workload.batches) for decoder in decoders], rounds
    )
    return [
        {
            **{
                "workload": workload.name,
                "program": decoder.program,
                "arithmetic": decoder.arithmetic,
            },
            **{"same": n_equal, "sentences": workload.sentences, "cpu_seconds": seconds},
            **{
                "has_goals": workload.has_goals,
                "bleu": workload.text and workload.text.bleu(translations),
            },
        }
        for decoder, n_equal, translations, seconds in zip(
            decoders, equal_counts, outputs, timings, strict=True
        )
    ]


def _check(workload: Workload, decoders: Sequence[Decoder], equal_counts: Sequence[int]) -> None:
    first = workload.batches[0][:WITHOUT_CACHE]
    uncached = without_cache(workload.model, workload.decode)
    comparisons = [
        (f"{decoder.program}, {decoder.arithmetic}", n_equal, workload.sentences)
        for decoder, n_equal in zip(decoders, equal_counts, strict=True)
        if decoder.arithmetic == "fp32"
    ]
    comparisons.append(
        (
            uncached.program,
            _same(uncached.translate(first), decoders[0].translate(first)),
            len(first),
        )
    )
    allowed = f"at least {ENOUGH_ALIKE:.0%} must be the same as ours"
    problems = [
        Problem(
            f"{workload.name}, {name}", f"{n_equal} of {sentences} outputs are the same", allowed
        )
        for name, n_equal, sentences in comparisons
        if n_equal < ENOUGH_ALIKE * sentences
    ]
    if problems:
        raise RefusedError(problems)


def _same(outputs: Outputs, reference: Outputs) -> int:
    return sum(a == b for a, b in zip(outputs, reference, strict=True))


def sheets(lines: Sequence[dict[str, Any]]) -> Iterator[Sheet]:
    """Speeds of all programs, then ours over the peers'."""
    note = (
        "Sentences per CPU second on one thread: median and range of the rounds. Same: "
        "outputs equal ours in fp32."
    )
    columns = ("outputs", "program", "arithmetic", "sentences/s", "range", "same", "BLEU")
    yield Sheet("Beam search", note, columns, list(map(_speed, lines)), words=3)
    note = "Our speed divided by the peer's in the same round: median and range."
    rows = [
        _ratio(ours, peer)
        for ours, peer in product(lines, lines)
        if ours["program"] == OURS != peer["program"] and ours["workload"] == peer["workload"]
    ]
    columns = ("outputs", "ours", "peer", "its arithmetic", "ratio", "range", "goal")
    yield Sheet("Ours against the peers", note, columns, rows, words=4)


def document(result: Result) -> str:
    """The full run as Markdown."""
    head = record.heading("Decoding on a CPU, side by side", result)
    return "\n".join(
        [
            *head,
            "Everything is measured in this run.",
            "",
            *map(to_markdown, sheets(result["decoding"])),
        ]
    )


def _speed(line: dict[str, Any]) -> tuple[str, ...]:
    speeds = [line["sentences"] / seconds for seconds in line["cpu_seconds"]]
    figures = f"{median(speeds):.1f}", f"{min(speeds):.1f}–{max(speeds):.1f}"
    bleu = "" if line["bleu"] is None else f"{line['bleu']:.2f}"
    equal_share = f"{line['same']} of {line['sentences']}"
    return line["workload"], line["program"], line["arithmetic"], *figures, equal_share, bleu


def _ratio(ours: dict[str, Any], peer: dict[str, Any]) -> tuple[str, ...]:
    ratios = [b / a for a, b in zip(ours["cpu_seconds"], peer["cpu_seconds"], strict=True)]
    speedup = median(ratios)
    least = GOALS.get((ours["arithmetic"], peer["program"], peer["arithmetic"]))
    goal = (
        f"≥ {least:.1f} {MET if speedup >= least else MISSED}"
        if least and ours["has_goals"]
        else ""
    )
    between = f"{min(ratios):.2f}–{max(ratios):.2f}"
    return (
        ours["workload"],
        ours["arithmetic"],
        peer["program"],
        peer["arithmetic"],
        f"{speedup:.2f}",
        between,
        goal,
    )


def _read_trial(folder: Path) -> tuple[TrialConfig, Path]:
    """A trial's configuration, and the folder of its prepared data."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise RefusedError(
            [Problem("--trial", f"{path} is missing", "must be the folder of a trial")]
        )
    tree = yaml.safe_load(path.read_text("utf-8"))
    trial, problems = parse(
        TrialConfig, {name: tree.get(name) for name in ("model", "train", "decode", "data")}
    )
    if trial is None:
        raise RefusedError(problems)
    if {trial.model.n_heads * width for width in (trial.model.d_k, trial.model.d_v)} != {
        trial.model.d_model
    }:
        raise RefusedError(
            [
                Problem(
                    "--trial", "has d_k or d_v unlike d_model / n_heads", "HF Marian has no others"
                )
            ]
        )
    return trial, Path(tree["paths"]["data"])


def _last_weights(folder: Path) -> dict[str, Tensor]:
    key = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))["key"]
    lineage = TrialFolder(folder, Card("any", 1, ())).lineage()
    newest = CheckpointReader(str(folder / "checkpoints"), key, lineage).newest()
    if newest is None:
        raise RefusedError(
            [Problem("--trial", f"{folder} has no complete checkpoint", "must be a trained trial")]
        )
    weights: dict[str, Tensor] = newest.saved.state["model"]
    return weights


if __name__ == "__main__":
    typer.run(main)
