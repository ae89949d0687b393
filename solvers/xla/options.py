"""Options of XLA's memory space assignment (XLA: `memory_space_assignment::Options`), and their production values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...env.errors import UserError
from ...env.program import compiler_flags
from ...env.program.target import Target

_MIB = 2**20
SLICES = "xla_tpu_sliced_prefetch_max_slices"
# The fields of `Options` that further flags of the compiler set.
NUMBERS = {
    "xla_msa_preferred_overlap_to_async_copy_ratio": "preferred_overlap",
    "xla_msa_min_overlap_to_async_copy_ratio": "min_overlap",
    "xla_tpu_msa_inefficient_use_to_copy_ratio": "inefficient_ratio",
    "xla_msa_max_overlap_to_mem_size_async_copy_ratio": "max_overlap",
    "xla_tpu_memory_space_assignment_while_execution_count": "while_trips",
    "xla_msa_max_repacks": "repacks",
    SLICES: "max_slices",
}
_WHOLE = ("repacks", "max_slices")
# Programs whose option-independent tables are cached: a search decodes one program under many options.
KEPT = 2
# Slices of a prefetch by generation: their largest number, and the bytes of each where that is fixed.
_SLICES = {"v4": (4, 0), "v5e": (4, 0), "v5p": (1, 0), "v6e": (2**31, 4 * _MIB)}


@dataclass(frozen=True)
class Options:
    """Settings of the assignment; the defaults are those that libtpu 0.0.51 logs.

    Attributes:
      copy_bandwidth_scale: share of HBM's bandwidth that copies are expected to get
        (`xla_tpu_async_copy_bandwidth_scaling_factor`).
      loop_optimiser: plan prefetches of repeated layers together (`memory_bound_loop_optimizer_options.enabled`).
      cross_program: inputs that the previous execution prefetches, at most (`max_cross_program_prefetches`).
      retries: attempts to place one buffer (`max_retries`).
      repacks: repacks of all stays, at most (`max_repacks`).
      min_overlap, preferred_overlap: time from the start of a prefetch to its use, in units of the copy's.
      max_overlap: longest stay without a use, in units of the time that a copy as large as fast memory takes.
      inefficient_ratio: a stay must serve at least this share of the bytes copied for it
        (`inefficient_use_to_copy_ratio`).
      max_prefetches, max_write_backs: copies in flight at once; None for the target's limit.
      max_slices, slice_bytes: a prefetch is cut into so many slices at most, of this size; 0 for equal slices.
      slice_min_bytes: smaller prefetches are not cut.
      loop_min_iterations: shorter repetitions are left alone (`min_num_iterations`).
      loop_copy_ratio: share of a prefetch that must be hidden in one iteration (`desired_copy_ratio`).
      typical_bytes: size of the buffer by which the starts of all copies are chosen; None: see `module_facts.py`.
      while_trips: trips that every loop counts as (`while_execution_count`).
    """

    copy_bandwidth_scale: float = 1.0
    loop_optimiser: bool = True
    cross_program: int = 1
    retries: int = 2
    repacks: int = 4
    min_overlap: float = 1.0
    preferred_overlap: float = 2.0
    max_overlap: float = 8.0
    inefficient_ratio: float = 0.5
    max_prefetches: int | None = None
    max_write_backs: int | None = None
    max_slices: int = 4
    slice_bytes: int = 0
    slice_min_bytes: int = _MIB
    loop_min_iterations: float = 6.0
    loop_copy_ratio: float = 0.7
    while_trips: float = 5.0
    typical_bytes: int | None = None

    def __post_init__(self) -> None:
        """Raises `UserError` if a setting makes no sense."""
        if not self.copy_bandwidth_scale > 0:
            raise UserError(f"copies cannot get {self.copy_bandwidth_scale} of the bandwidth; give more than 0")
        if self.retries < 1 or self.repacks < 0 or self.cross_program < 0:
            raise UserError(
                "options of the xla solver: `retries` is 1 or more, `repacks` and `cross_program` 0 or more"
            )


def production(target: Target) -> Options:
    """Returns the options that the compiler uses for a target by default."""
    slices, size = _SLICES.get(target.name, _SLICES["v5e"])
    return Options(max_slices=slices, slice_bytes=size, loop_optimiser=target.name != "v4")


def from_flags(target: Target, flags: Mapping[str, str]) -> Options:
    """Returns the options that compiler flags stand for: those of the flag grid, and `NUMBERS`.

    Raises:
      UserError: a flag is not known here, or its value is not.
    """
    options = production(target)
    for flag, value in flags.items():
        try:
            if flag == compiler_flags.BANDWIDTH:
                options = replace(options, copy_bandwidth_scale=float(value))
            elif flag == compiler_flags.LOOP_OPTIMISER and value.replace(" ", "") in ("enabled:false", "enabled:true"):
                options = replace(options, loop_optimiser=value.endswith("true"))
            elif flag == compiler_flags.CROSS_PROGRAM:
                options = replace(options, cross_program=int(value))
            elif flag == compiler_flags.OUTSTANDING:
                options = replace(options, max_prefetches=int(value))
            elif flag in NUMBERS:
                number: Any = int(value) if NUMBERS[flag] in _WHOLE else float(value)
                options = replace(options, **{NUMBERS[flag]: number})
            else:
                raise ValueError
        except ValueError:
            raise UserError(f"the xla solver does not know the compiler option {flag}={value}") from None
    return options
