"""The Reverb table of segments: its sampler, remover, rate limiter and signature."""

from typing import Any

from ...env.errors import UserError
from ..config import ReplayConfig
from ..segment import SegmentSpec
from .lazy_import import import_reverb, import_tensorflow

TABLE = "segments"


def make_table(config: ReplayConfig, spec: SegmentSpec) -> Any:
    """Returns the `reverb.Table` of a replay: prioritised draws, the oldest segment leaves first."""
    reverb, tensorflow = import_reverb(), import_tensorflow()
    return reverb.Table(
        name=TABLE,
        sampler=reverb.selectors.Prioritized(config.priority_exponent),
        remover=reverb.selectors.Fifo(),
        max_size=config.capacity,
        rate_limiter=reverb.rate_limiters.SampleToInsertRatio(
            samples_per_insert=config.samples_per_insert,
            min_size_to_sample=config.min_size,
            error_buffer=config.error_range,
        ),
        signature={
            name: tensorflow.TensorSpec((spec.length, *shape), dtype) for name, (shape, dtype) in spec.fields.items()
        },
    )


def check_table(info: Any, config: ReplayConfig, spec: SegmentSpec, server: str) -> None:
    """Checks that a server's table is the one that `make_table` makes of these settings.

    Args:
      info: Reverb's `TableInfo`.
      config: the client's settings.
      spec: the client's sizes.
      server: the server's address, for messages.

    Raises:
      UserError: a setting or a field differs.
    """
    limiter = info.rate_limiter_info
    there = {
        "capacity": info.max_size,
        "priority_exponent": info.sampler_options.prioritized.priority_exponent,
        "samples_per_insert": limiter.samples_per_insert,
        "min_size": limiter.min_size_to_sample,
        "error_range": (limiter.min_diff, limiter.max_diff),
    }
    for name, value in there.items():
        if value != getattr(config, name):
            raise UserError(
                f"replay server {server}: {name} is {value} there and {getattr(config, name)} here; "
                "use the configuration that the server was started with"
            )
    for name, (shape, dtype) in spec.fields.items():
        field = (info.signature or {}).get(name)
        expected = (spec.length, *shape)
        if field is None or tuple(field.shape) != expected or field.dtype.as_numpy_dtype != dtype:
            raise UserError(
                f"replay server {server}: {name} is {field} there and {expected} {dtype} here; "
                "use the segment spec that the server was started with"
            )
