"""The formats that `allelse export` writes."""

from enum import StrEnum


class ExportKind(StrEnum):
    """A format, by its name in ``--to``."""

    ctranslate2 = "ctranslate2"
    safetensors = "safetensors"
    mlflow = "mlflow"
