"""Functions of the benchmark at several sizes."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "env" / "workloads"))

from models import dlrm, llama, lstm


def _dlrm(batch: int) -> Any:
    return dlrm._training(batch, (512, 256, dlrm._WIDTH), (1024, 1024, 512, 256, 1))


def dlrm_2048() -> Any:
    """A training step of DLRM, batch 2048."""
    return _dlrm(2048)


def dlrm_1024() -> Any:
    """The same, batch 1024."""
    return _dlrm(1024)


def dlrm_3072() -> Any:
    """The same, batch 3072."""
    return _dlrm(3072)


def dlrm_4096() -> Any:
    """The same, batch 4096."""
    return _dlrm(4096)


def decode_16() -> Any:
    """One-token decode of a Llama, batch 16, cache of 1024 tokens."""
    return llama._decode(16, 1024)


def decode_8() -> Any:
    """The same, batch 8."""
    return llama._decode(8, 1024)


def decode_24() -> Any:
    """The same, batch 24."""
    return llama._decode(24, 1024)


def decode_16_1536() -> Any:
    """The same, batch 16, cache of 1536 tokens."""
    return llama._decode(16, 1536)


def _lstm(batch: int, length: int) -> Any:
    return lstm._training("LSTM", 1024, 2, batch, length)


def lstm_64() -> Any:
    """A training step of an LSTM, batch 64, length 32."""
    return _lstm(64, 32)


def lstm_32() -> Any:
    """The same, batch 32."""
    return _lstm(32, 32)


def lstm_96() -> Any:
    """The same, batch 96."""
    return _lstm(96, 32)


def lstm_64_48() -> Any:
    """The same, batch 64, length 48."""
    return _lstm(64, 48)
