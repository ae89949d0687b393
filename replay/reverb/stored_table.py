"""Stages a stored Reverb table for a new server, under the rate limiter of the new configuration.

Reverb restores the limiter that a checkpoint was written under, whatever the settings of the new server, and inserts
can then block for ever (google-deepmind/reverb#103). The limiter is a few fields of the checkpoint's first file, which
are rewritten before the server reads it. The layout follows Reverb 0.14's `tfrecord_checkpointer.cc`.
"""

import os
import shutil
from pathlib import Path

from ...env.errors import FormatError
from .. import checkpoint
from ..config import ReplayConfig
from .lazy_import import import_tables_proto, import_tensorflow

KIND = "reverb"
# Folder of the checkpoint that holds Reverb's own files.
DATA = "table"
_TABLES, _COMPRESSION = "tables.tfrecord", "ZLIB"


def stage(directory: Path, root: Path, config: ReplayConfig) -> None:
    """Writes the checkpoint `directory` to `root`, from which a server loads it, with the limiter of `config`.

    Large files are linked, not copied, where the file system can.

    Raises:
      FormatError: Reverb's files are not as Reverb 0.14 writes them.
    """
    tensorflow = import_tensorflow()
    tables_proto = import_tables_proto()
    staged = root / "restored"
    staged.mkdir()
    for source in sorted((directory / DATA).iterdir()):
        if source.name != _TABLES:
            _link(source, staged / source.name)
    path = directory / DATA / _TABLES
    try:
        records = [r.numpy() for r in tensorflow.data.TFRecordDataset(str(path), compression_type=_COMPRESSION)]
        (table,) = [tables_proto.FromString(record) for record in records]
        old_config = ReplayConfig(**checkpoint.load_manifest(directory)["config"])
    except (tensorflow.errors.OpError, ValueError) as error:
        raise FormatError(
            f"{path}: not the tables of a Reverb 0.14 checkpoint ({error}); take another checkpoint"
        ) from error
    limiter = table.rate_limiter
    if not config.paces_like(old_config):
        limiter.sample_count = config.balanced_samples(limiter.insert_count)
    limiter.samples_per_insert = config.samples_per_insert
    limiter.min_size_to_sample = config.min_size
    limiter.min_diff, limiter.max_diff = config.error_range
    with tensorflow.io.TFRecordWriter(str(staged / _TABLES), options=_COMPRESSION) as writer:
        writer.write(table.SerializeToString())


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # Another file system, or one without links.
        shutil.copyfile(source, target)
