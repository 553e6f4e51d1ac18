"""Files that Lightning, Trainer, MLflow and TensorBoard's writer wrote themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracking.written.environment import environment
from tracking.written.watch import WrittenMetrics

Points = list[tuple[str, float, int | None, str]]


def points(metrics: WrittenMetrics) -> Points:
    return [(point.name, point.value, point.step, point.source) for point in metrics.poll()]


def test_lightnings_csv_logger(tmp_path: Path) -> None:
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    metrics = WrittenMetrics(tmp_path, tmp_path / "stdout")
    logger = loggers.CSVLogger(tmp_path, flush_logs_every_n_steps=1)
    logger.log_metrics({"epoch": 0, "train_loss": 0.5}, step=4)
    assert points(metrics) == [("train_loss", 0.5, 4, "lightning_logs/metrics.csv")]
    logger.log_metrics({"epoch": 0, "val_loss": 0.25, "a_score": 1.0}, step=9)
    logger.log_metrics({"epoch": 1, "train_loss": 0.125}, step=14)
    assert sorted(points(metrics)) == [
        ("a_score", 1.0, 9, "lightning_logs/metrics.csv"),
        ("train_loss", 0.125, 14, "lightning_logs/metrics.csv"),
        ("val_loss", 0.25, 9, "lightning_logs/metrics.csv"),
    ]


def test_the_state_of_trainer(tmp_path: Path) -> None:
    callback = pytest.importorskip("transformers.trainer_callback")
    metrics = WrittenMetrics(tmp_path, tmp_path / "stdout")
    history = [{"loss": 0.5, "epoch": 0.5, "step": 10}]
    for step in (10, 20):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        state = callback.TrainerState(log_history=history, global_step=step)
        state.save_to_json(str(folder / "trainer_state.json"))
        history.append({"eval_loss": 0.25, "epoch": 1.0, "step": 20})
    assert points(metrics) == [
        ("loss", 0.5, 10, "trainer_state.json"),
        ("eval_loss", 0.25, 20, "trainer_state.json"),
    ]


def test_tensorboards_events(tmp_path: Path) -> None:
    """Scalars, also in the newer form of a tensor; text, histograms and hyperparameters are passed
    over, and half a record waits."""
    writers = pytest.importorskip("tensorboardX")
    folder = tmp_path / "out" / "runs" / "Nov27_03-55-12_host"
    metrics = WrittenMetrics(tmp_path / "out", tmp_path / "stdout")
    writer = writers.SummaryWriter(str(tmp_path / "elsewhere"))
    writer.add_scalar("loss/train", 0.5, 1)
    writer.add_text("notes", "loss: 3", 1)
    writer.add_histogram("weights", [0.5, 1.0, 2.0], 1)
    writer.add_scalar("loss/train", 0.25, 70000)
    writer.close()
    (events,) = (tmp_path / "elsewhere").iterdir()
    whole = events.read_bytes()
    folder.mkdir(parents=True)
    with (folder / events.name).open("ab") as growing:
        growing.write(whole[:-5])
        growing.flush()
        assert points(metrics) == [("loss/train", 0.5, 1, "runs/tensorboard")]
        growing.write(whole[-5:])
    assert points(metrics) == [("loss/train", 0.25, 70000, "runs/tensorboard")]
    assert metrics.notices == []


def test_tensorflows_scalars_are_tensors(tmp_path: Path) -> None:
    protocol = pytest.importorskip("tensorboardX.proto")
    assert protocol
    from tensorboardX.event_file_writer import EventFileWriter
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.proto.tensor_pb2 import TensorProto
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

    metrics = WrittenMetrics(tmp_path, tmp_path / "stdout")
    tensors = [
        TensorProto(dtype="DT_FLOAT", float_val=[0.5]),
        TensorProto(dtype="DT_DOUBLE", double_val=[0.25]),
        TensorProto(dtype="DT_FLOAT", tensor_content=b"\x00\x00\x00\x3e"),
        TensorProto(
            dtype="DT_FLOAT",
            float_val=[1.0],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        ),
    ]
    writer = EventFileWriter(str(tmp_path / "validation"))
    for step, tensor in enumerate(tensors):
        summary = Summary(value=[Summary.Value(tag="epoch_loss", tensor=tensor)])
        writer.add_event(Event(step=step, summary=summary))
    writer.close()
    assert points(metrics) == [
        ("epoch_loss", 0.5, 0, "validation/tensorboard"),
        ("epoch_loss", 0.25, 1, "validation/tensorboard"),
        ("epoch_loss", 0.125, 2, "validation/tensorboard"),
    ]


LOGGED = """
import mlflow
with mlflow.start_run():
    mlflow.log_metric("val/loss", 0.5, step=1)
    mlflow.log_metric("val/loss", float("nan"), step=2)
    mlflow.log_metrics({"accuracy": 0.75}, step=2)
"""


@pytest.mark.slow
def test_mlflow_writes_below_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    folder = tmp_path / "out"
    folder.mkdir()
    metrics = WrittenMetrics(folder, tmp_path / "stdout")
    variables = {**os.environ, **environment(folder)}
    subprocess.run([sys.executable, "-c", LOGGED], cwd=tmp_path, env=variables, check=True)
    written = sorted(points(metrics), key=lambda point: (point[0], point[2]))
    assert [point for point in written if point[1] == point[1]] == [
        ("accuracy", 0.75, 2, "mlflow"),
        ("val/loss", 0.5, 1, "mlflow"),
    ]
    assert [step for name, _, step, _ in written if name == "val/loss"] == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
