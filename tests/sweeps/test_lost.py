"""Which errors of a worker another attempt may not have."""

import errno
import os

import pytest
import torch
import torch.distributed as dist

from sweeps.events import Failed, Lost
from sweeps.running.lost import is_lost_peer, is_out_of_memory
from sweeps.running.worker_actor import ended_by
from transformer.processes.storage import StorageError
from transformer.training.broadcast import RankZeroError

LOST = [
    RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1"),
    RuntimeError("Gloo connectFullMesh failed with [enforce fail at tcp/pair.cc]"),
    RuntimeError("NCCL error: unhandled system error"),
    dist.DistNetworkError("The server socket has failed to listen on any local network address. EADDRINUSE"),
    dist.DistStoreError("Timed out after 121 seconds waiting for clients. 1/2 clients joined."),
    OSError(errno.EADDRINUSE, "Address already in use"),
]
MEMORY = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
]


@pytest.mark.parametrize("error", LOST, ids=lambda error: str(error)[:30])
def test_errors_of_meeting_and_of_connections_lose_a_worker(error: Exception) -> None:
    assert is_lost_peer(error)
    assert isinstance(ended_by(error), Lost)


def test_a_worker_that_only_hears_of_rank_zeros_error_is_not_the_cause() -> None:
    found = ended_by(RankZeroError("rank zero stopped: OSError: Stale file handle"))
    assert isinstance(found, Lost)
    assert found.peer, "the sweep waits for rank zero's own event"


@pytest.mark.parametrize("error", MEMORY, ids=repr)
def test_missing_memory_is_worth_one_retry(error: Exception) -> None:
    found = ended_by(error)
    assert isinstance(found, Lost)
    assert found.memory
    assert found.cause.startswith("out of memory: ")


def test_torch_tells_missing_memory_on_a_cpu_by_its_text_alone() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        "CUDA error: uncorrectable ECC error encountered",
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "No CUDA GPUs are available",
        "No CUDA GPUs are available, but CUDA_VISIBLE_DEVICES names one",
        "CUDA driver initialization failed, you might not have a CUDA gpu.",
        "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        "CUDA error: no CUDA-capable device is detected",
    ],
)
def test_a_gpu_that_cannot_be_used_is_no_fault_of_the_trial(words: str) -> None:
    found = ended_by(torch.AcceleratorError(words))
    assert isinstance(found, Lost)
    assert not found.memory


@pytest.mark.parametrize(
    "words",
    ["CUDA error: device-side assert triggered", "CUDA error: an illegal memory access was encountered"],
)
def test_a_fault_of_a_kernel_fails_the_trial(words: str) -> None:
    assert isinstance(ended_by(torch.AcceleratorError(words)), Failed)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_file_that_was_away_is_worth_a_retry_unless_it_was_waited_for(number: int) -> None:
    assert isinstance(ended_by(OSError(number, os.strerror(number), "train.npy")), Lost)
    assert isinstance(ended_by(StorageError(number, os.strerror(number), "train.npy")), Failed)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a connection was refused"),
        RuntimeError("shapes differ"),
        OSError(2, "x"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_other_errors_fail_the_trial(error: Exception) -> None:
    assert isinstance(ended_by(error), Failed)
