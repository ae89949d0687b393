"""Looks for the best size of scoped memory: the part of fast memory that the code generator keeps for itself.

A larger one allows larger tiles, and leaves less for tensors. XLA takes the same size for every program of a target
(`xla_tpu_scoped_vmem_limit_kib`). With *scavenging* (`xla_tpu_scavenge_vmem_for_fusions`) an instruction reserves only
what it uses, and tensors get the rest. Each setting makes another program, with another mapping by XLA, and takes a
whole compilation. The cost model `cycles` compares them; `msa` does not know what the code generator does with its
memory.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..env.errors import UserError
from ..env.physics.cost import CYCLES, MSA
from ..env.physics.objective import ROBUST, latencies
from ..env.program.compiler_flags import CompilerOptions
from ..env.program.program import Program
from ..env.program.target import find_target
from .captured import captured

SCOPED_MEMORY = "xla_tpu_scoped_vmem_limit_kib"
SCAVENGING = "xla_tpu_scavenge_vmem_for_fusions"
# The largest share of the time of `tune` for sizes.
SIZES_SHARE = 0.5
# Fast memory in MiB, of which tensors get what scoped memory leaves.
_FAST_MIB = {"v5e": 128, "v5p": 64, "v6e": 128}
# Elsewhere the memory for tensors does not tell the compiler's default; in MiB (libtpu 0.0.51), found by trial.
_DEFAULT_MIB = {"v4": 16, "tpu7x": 32}
# On v4 the code generator has a memory of its own, and no more than this; larger sizes change nothing.
_MOST_MIB = {"v4": 16}
# Sizes to try, in multiples of the default, and the two that come first.
_MULTIPLES = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
_FIRST = (1.5, 0.75)
# A size has to be better by this share of the latency.
_LEAST_GAIN = 1e-3
# A compilation may take this many times as long as the longest so far: larger tiles take longer to choose.
_LONGER = 2.0

# Compiles the function with further options, within a limit of seconds.
Compile = Callable[[CompilerOptions, float], Program]


class Size(NamedTuple):
    """A setting of scoped memory that was tried.

    Attributes:
      kib: the size in KiB.
      latency_s: of XLA's own mapping, in seconds by cost model; empty if there is none.
      error: why it cannot be compared, or None.
      scavenges: whether instructions reserve only what they use.
    """

    kib: int
    latency_s: Mapping[str, float | None]
    error: str | None = None
    scavenges: bool = False

    @property
    def cycles_s(self) -> float:
        """Seconds by `cycles`; infinite if they are not known."""
        seconds = self.latency_s.get(CYCLES)
        return math.inf if seconds is None else seconds

    @property
    def record(self) -> dict[str, Any]:
        """The setting for JSON: `kib`, `scavenges`, `us` by cost model, None if there is none, and `error`."""
        us = {model: None if seconds is None else seconds * 1e6 for model, seconds in self.latency_s.items()}
        return {"kib": self.kib, "scavenges": self.scavenges, "us": us or None, "error": self.error}


@dataclass(frozen=True)
class Sizes:
    """The settings that were tried.

    Attributes:
      default: the compiler's default.
      best: the best of all.
      tried: the others, in the order of their compilations.
    """

    default: Size
    best: Size
    tried: tuple[Size, ...]

    @property
    def options(self) -> CompilerOptions:
        """The options for the best setting; none for the default."""
        return _options(self.best.kib, self.best.scavenges, self.default.kib)


def check_scoped_memory(wanted: bool, objective: str, options: Mapping[str, str]) -> None:
    """Checks that sizes of scoped memory can be compared. Raises UserError if they cannot."""
    if wanted and objective == MSA:
        raise UserError(
            f"--scoped-memory goes with --objective {ROBUST} or {CYCLES}: {MSA} does not know what the code generator "
            "does with its memory"
        )
    for name in (SCOPED_MEMORY, SCAVENGING):
        if wanted and name in options:
            raise UserError(f"--scoped-memory searches what --option {name} sets; leave one out")


def find_size(
    compile_with: Compile,
    target: str,
    until: float,
    progress: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> Sizes:
    """Compiles a function with several sizes of scoped memory, and returns which is the best.

    It begins with half as much again and a quarter less, and goes on beside the best. Then the best size is tried with
    scavenging, where that is not the default. Nothing is begun that would probably end too late.

    Args:
      compile_with: compiles the function with further options, within a limit of seconds.
      target: a generation, or a topology of one.
      until: when it ends, by `clock`.
      progress: takes one line at a time.
      clock: returns seconds.

    Raises:
      UserError: the function cannot be compiled without further options.
    """
    generation = find_target(target)[0].name
    begun = clock()
    program = compile_with({}, until - begun)
    own = 1024 * _default_mib(generation, program)
    most = 1024 * _MOST_MIB.get(generation, math.inf)
    sizes = {multiple: kib for multiple in _MULTIPLES if (kib := round(own * multiple)) <= most}
    default = _size(own, program)
    tried = {1.0: default}
    others: list[Size] = []
    progress(f"scoped memory: {_told(default)}, the compiler's default")
    longest_s = clock() - begun

    def attempt(kib: int, *, scavenges: bool = False) -> Size | None:
        """Tries a setting if there is time."""
        nonlocal longest_s
        begun, left_s = clock(), until - clock()
        if left_s < _LONGER * longest_s:
            progress(f"no time was left to try {_setting(kib, scavenges)}")
            return None
        try:
            size = _size(kib, compile_with(_options(kib, scavenges, own), left_s), scavenges)
        except UserError as error:
            size = Size(kib, {}, str(error), scavenges)
        progress(f"scoped memory: {_told(size)}")
        longest_s = max(longest_s, clock() - begun)
        others.append(size)
        return size

    untried = _next(tried, sizes) if default.error is None else []
    while untried and (size := attempt(sizes[untried[0]])) is not None:
        tried[untried[0]] = size
        untried = _next(tried, sizes)
    best = _better(default, min(tried.values(), key=lambda size: size.cycles_s))
    if default.error is None and generation in _FAST_MIB:
        scavenging = attempt(best.kib, scavenges=True)
        best = best if scavenging is None else _better(best, scavenging)
    return Sizes(default, best, tuple(others))


def _better(best: Size, other: Size) -> Size:
    """Returns `other` if it is clearly better, else `best`."""
    return other if other.cycles_s < (1.0 - _LEAST_GAIN) * best.cycles_s else best


def _default_mib(generation: str, program: Program) -> int:
    """Returns the size of scoped memory that a program was compiled with, if no option set it."""
    if generation in _DEFAULT_MIB:
        return _DEFAULT_MIB[generation]
    return _FAST_MIB[generation] - math.ceil(program.target.fast_bytes / 2**20)


def _next(tried: Mapping[float, Size], sizes: Mapping[float, int]) -> list[float]:
    """Returns the multiples in `sizes` that are next and untried: the first two, then those beside the best."""
    best = _MULTIPLES.index(min(tried, key=lambda multiple: tried[multiple].cycles_s))
    beside = _MULTIPLES[max(best - 1, 0) : best + 2]
    return [one for one in dict.fromkeys([*_FIRST, *reversed(beside)]) if one in sizes and one not in tried]


def _options(kib: int, scavenges: bool, own: int) -> CompilerOptions:
    """Returns the options for a setting; `own` is the compiler's size in KiB."""
    size = {SCOPED_MEMORY: str(kib)} if kib != own else {}
    return {**size, **({SCAVENGING: "true"} if scavenges else {})}


def _size(kib: int, program: Program, scavenges: bool = False) -> Size:
    if program.production is None:
        return Size(kib, {}, "XLA's mapping could not be read back", scavenges)
    latency_s = latencies(program, program.production)
    error = None if latency_s[CYCLES] is not None else "the code generator tells no cycles"
    return Size(kib, latency_s, error, scavenges)


def _told(size: Size) -> str:
    setting = _setting(size.kib, size.scavenges)
    if size.error is not None:
        return f"{setting}: {size.error}"
    figures = (f"{s * 1e6:,.2f} us ({model})" for model, s in size.latency_s.items() if s is not None)
    return f"{setting}: {', '.join(figures)}"


def _setting(kib: int, scavenges: bool) -> str:
    return f"{kib / 1024:g} MiB{' with scavenging' if scavenges else ''}"


def compiler_of(function: str, target: str, options: Mapping[str, str], **settings: Any) -> Compile:
    """Returns what compiles a function, each time with further options, for the cycles of XLA's own mapping.

    Args:
      function, target, settings: see `capture`.
      options: compiler options of every compilation.
    """

    def compile_with(more: CompilerOptions, seconds: float) -> Program:
        with captured(
            function,
            target,
            lambda line: None,
            options={**options, **more},
            time_limit_s=max(1.0, seconds),
            with_module=False,
            **settings,
        ) as (program, _):
            return program

    return compile_with
