"""What `ablate export` can write."""

from enum import StrEnum


class ExportKind(StrEnum):
    """A format, by the name that ``--to`` takes."""

    ctranslate2 = "ctranslate2"
    safetensors = "safetensors"
    mlflow = "mlflow"
