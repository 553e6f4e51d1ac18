"""Opens an exported folder as a translator: for your programs, and for MLflow, which calls these names."""

from pathlib import Path
from typing import Any

from transformer.decoding.export import load_exported
from transformer.decoding.translate import Translator


def open_exported(folder: str | Path) -> Translator:
    """The translator in a folder that ``allelse export --to safetensors`` wrote, on the CPU. Raises FaultyError."""
    model, vocabulary, trial = load_exported(Path(folder))
    return Translator(model, vocabulary, trial.decode, trial.train.precision)


class Served:
    """A model of MLflow's flavor ``python_function``."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> list[str]:
        """The translation of each line in the first column of a data frame."""
        lines = [str(line) for line in model_input.iloc[:, 0]]
        return self.translator.translate(lines)


def _load_pyfunc(path: str) -> Served:
    """MLflow's entry point: ``path`` is the exported folder within the MLflow model."""
    return Served(open_exported(path))
