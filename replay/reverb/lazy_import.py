"""Imports Reverb and TensorFlow when they are first needed; no other file does."""

import contextlib
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ...env.errors import UserError


def import_reverb() -> ModuleType:
    """Returns the `reverb` module; takes seconds the first time.

    Raises:
      UserError: Reverb or its TensorFlow is not installed.
    """
    reverb = sys.modules.get("reverb")
    if reverb is not None:
        return reverb
    # TensorFlow reads it when it loads: 2 leaves errors. The user's own choice stands.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    fresh = "tensorflow" not in sys.modules
    try:
        with warnings.catch_warnings(), _without("keras"), _without_collection():
            # Reverb 0.14 compares versions with distutils (google-deepmind/reverb#145 tracks its ageing installation).
            warnings.filterwarnings("ignore", "distutils Version classes are deprecated", DeprecationWarning)
            warnings.filterwarnings("ignore", "The distutils package is deprecated", DeprecationWarning)
            tensorflow = importlib.import_module("tensorflow")
            reverb = importlib.import_module("reverb")
    except ImportError as error:
        raise UserError(
            f"the Reverb replay needs dm-reverb and TensorFlow ({error}): use Python 3.11 and "
            "`pip install mallocmuzero[cluster]`, or the single-process topology"
        ) from error
    if fresh:
        # TensorFlow only moves bytes here; the accelerator and the processor's threads belong to JAX.
        tensorflow.config.set_visible_devices([], "GPU")
        tensorflow.config.threading.set_intra_op_parallelism_threads(1)
        tensorflow.config.threading.set_inter_op_parallelism_threads(2)
    return reverb


@contextlib.contextmanager
def _without(package: str) -> Iterator[None]:
    """Has imports of a package fail while the context lasts, unless it is loaded.

    TensorFlow loads all of Keras where there is one, and does without where there is none. That is an eighth to a fifth
    of the processor time of its import, in every process of a run. `tensorflow.keras` still loads Keras when used.
    """
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Has Python collect no garbage while the context lasts.

    It would look through the objects of TensorFlow again and again as it loads, for a third of the processor time.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


def import_tensorflow() -> Any:
    """Returns the `tensorflow` module that Reverb uses. Raises as `import_reverb`."""
    import_reverb()
    return sys.modules["tensorflow"]


def import_tables_proto() -> Any:
    """Returns the protocol buffer of a stored table in Reverb's checkpoints. Raises as `import_reverb`."""
    import_reverb()
    return importlib.import_module("reverb.cc.checkpointing.checkpoint_pb2").PriorityTableCheckpoint
