"""Writes compiler options that bring about a mapping: an order of buffers, starts of prefetches, and flags.

The options are those of libtpu 0.0.51, found by experiment (docs/round-trip.md). Their values are text protos, which
name a value by the instruction and the shape index that define it, and a use by instruction and operand number. They
also give sizes, because the compiler compares sizes before it compiles the regular expression of a name
(docs/decisions/0039-what-options-can-say.md).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..env.capture.hlo import parse_path
from ..env.errors import FormatError, UserError
from ..env.program.assignment_facts import LoopOperand
from ..env.program.compiler_flags import (
    BANDWIDTH,
    CROSS_PROGRAM,
    KEEPS,
    LOOP_OPTIMISER,
    NAMING,
    ORDER,
    PREFETCHES,
    CompilerOptions,
)
from ..env.program.program import RESULT, Program
from ..env.program.target import Target
from ..solvers.order.flags import Flags
from ..solvers.xla.options import NUMBERS, SLICES, production

# How many trips the compiler assumes for a loop of unknown length.
TRIPS = "xla_tpu_memory_space_assignment_while_execution_count"
# The flag of each option.
FLAG_NAMES = {
    BANDWIDTH: "bandwidth",
    LOOP_OPTIMISER: "loop_optimiser",
    CROSS_PROGRAM: "cross_program",
    SLICES: "slices",
    "xla_msa_preferred_overlap_to_async_copy_ratio": "overlap",
    "xla_msa_min_overlap_to_async_copy_ratio": "least",
    "xla_tpu_msa_inefficient_use_to_copy_ratio": "served",
    "xla_msa_max_overlap_to_mem_size_async_copy_ratio": "idle",
    TRIPS: "trips",
    "xla_msa_max_repacks": "repacks",
}
# The dump of the options that the compiler took.
ENVIRONMENT = "*.tpu_comp_env.txt"
# The index of a value that is no element of a tuple.
_NO_TUPLE = " tuple_index { }"
_ACROSS = " apply_to_cross_program_prefetches: true"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]|[^\s{}":]+')


def base_of(options: Mapping[str, str]) -> CompilerOptions:
    """Returns the options that no search sets: a program is compiled with them anyway."""
    return {name: value for name, value in options.items() if name not in FLAG_NAMES and name not in NAMING}


def check_base(options: Mapping[str, str]) -> None:
    """Raises UserError if an option for every compilation is one that is searched."""
    for name in options.keys() - base_of(options).keys():
        raise UserError(f"--option {name}: this is one of the options that are searched; leave it out")


def flag_options(flags: Flags, target: Target) -> CompilerOptions:
    """Returns the compiler options of the flags that differ from the default for a target.

    Where copies are not cut into slices by default (v5p), the compiler crashes if an option says the same.
    """
    found: CompilerOptions = {}
    own, wanted = production(target), flags.options(target)
    if flags.bandwidth != 1.0:
        found[BANDWIDTH] = f"{flags.bandwidth:g}"
    if not flags.loop_optimiser:
        found[LOOP_OPTIMISER] = "enabled: false"
    if not flags.cross_program:
        found[CROSS_PROGRAM] = "0"
    for option, name in NUMBERS.items():
        if getattr(wanted, name) != getattr(own, name):
            found[option] = f"{getattr(wanted, name):g}"
    return found


def order_option(program: Program, order: Sequence[int], cross: Sequence[int] = ()) -> CompilerOptions:
    """Returns the option that places buffers in an order; buffers that it does not name are placed after them.

    All values of a buffer get its number, because the compiler places them together when it reaches the first.

    Args:
      program: the program.
      order: buffers, first to last.
      cross: inputs to prefetch across programs, whatever the compiler would choose, the first ones first.
    """
    order = [buffer for buffer in order if buffer not in cross]
    values = _values(program, [*cross, *order])
    overrides = [
        f"overrides {{ hlo_position_matcher {{ {position} }} "
        f"override_options {{ assign_value: {place - len(values)} }}{_ACROSS if buffer in cross else ''} }}"
        for place, buffer in enumerate([*cross, *order])
        for position in values[buffer]
    ]
    return {ORDER: " ".join(overrides)} if overrides else {}


def prefetch_option(
    program: Program, eagerness: ArrayLike, loop_operands: Sequence[Sequence[LoopOperand]] = ()
) -> CompilerOptions:
    """Returns the option that sets the starts of prefetches.

    A start is told by a number, and not by the instruction before it (`after_instruction`): where another function of
    the process has the instruction that reads and lacks the one before, the compiler ends the process.

    Args:
      program: the program.
      eagerness: `[A + W]` when a prefetch for an access, or for a use by a loop, should start (`Decoder.eagerness`), or
        -1 for none.
      loop_operands: for each use by a loop, the parts of the loop's operand to name.
    """
    wanted = np.asarray(eagerness)
    overrides = [
        f"overrides {{ {use} override_options {{ prefetch_eagerness: {wanted[at]:.6g} }} }}"
        for at in np.flatnonzero(wanted >= 0).tolist()
        for use in _uses(program, at, loop_operands)
    ]
    return {PREFETCHES: " ".join(overrides)} if overrides else {}


def keep_option(
    program: Program, buffers: Sequence[int], reads: Sequence[int], values: Mapping[int, int] | None = None
) -> CompilerOptions:
    """Returns the option that keeps values in HBM.

    Args:
      program: the program.
      buffers: buffers that stay in HBM.
      reads: accesses that are served from HBM. The compiler then also keeps in HBM each result of the same instruction
        that has the same shape index, and whose buffer is as large.
      values: how many values of other buffers stay in HBM, from the first one on; None for none.
    """
    values = {} if values is None else values
    named = _values(program, [*buffers, *values])
    kept = [f"hlo_position_matcher {{ {value} }}" for b, of in named.items() for value in of[: values.get(b)]]
    kept += [_use(program, access, exactly=True) for access in reads]
    overrides = [f"overrides {{ {what} keep_in_default_memory {{ }} }}" for what in kept]
    return {KEEPS: " ".join(overrides)} if overrides else {}


def check_taken(folder: Path, options: Mapping[str, str]) -> None:
    """Compares options with those that the compiler dumped, because it drops some without an error.

    Args:
      folder: the folder of a compilation with dumps.
      options: the options that the compilation was asked for.

    Raises:
      UserError: the compiler did not compile with one of the options.
      FormatError: the compiler dumped no options.
    """
    found = sorted(folder.glob(ENVIRONMENT))
    if not found:
        raise FormatError(
            f"{folder}: has no file `{ENVIRONMENT}`, so that nobody can tell which options the compiler took; "
            "use the versions of jax and libtpu that the program was captured with"
        )
    lines = [line for line in found[0].read_text(encoding="utf-8", errors="replace").splitlines() if line[:1] != "#"]
    dumped = " ".join(_TOKEN.findall("\n".join(lines)))
    for flag, value in options.items():
        words = " ".join(_TOKEN.findall(value))
        start = f" {flag} "
        at = f" {dumped} ".find(start)
        rest = f" {dumped} "[at + len(start) :] if at >= 0 else ""
        taken = rest.partition(" } xla_")[0] if rest.startswith("{") else rest.partition(" ")[0]
        if at < 0 or f" {words} " not in f" {taken} ":
            raise UserError(f"the compiler dropped the option {flag}={value:.60} without a word; it is of no use here")


def _values(program: Program, buffers: Sequence[int]) -> dict[int, list[str]]:
    """Returns the matchers of each buffer's values: the value that defines it, and those written to it in place."""
    sizes = program.size.tolist()
    values: dict[int, list[str]] = {}
    for buffer in buffers:
        name, brace, path = program.buffer_names[buffer].partition("{")
        values[buffer] = [_position(name, brace + path, sizes[buffer])]
    for access in np.flatnonzero(program.access_kind == RESULT).tolist():
        buffer = int(program.access_buffer[access])
        if buffer in values:
            name = program.instruction_names[program.access_instruction[access]]
            position = _position(name, program.access_path[access], sizes[buffer])
            if position not in values[buffer]:
                values[buffer].append(position)
    return values


def _uses(program: Program, at: int, loop_operands: Sequence[Sequence[LoopOperand]]) -> list[str]:
    """Returns the filters of an access, or of a use by a loop, which come behind the accesses."""
    if at < program.num_accesses:
        return [_use(program, at)]
    return [
        _operand(operand.name, 0, int(program.size[operand.buffer]), operand.path)
        for operand in loop_operands[at - program.num_accesses]
    ]


def _use(program: Program, access: int, *, exactly: bool = False) -> str:
    """Returns the filter of a read; `exactly`: the index is told even of an operand that is no tuple."""
    user = program.instruction_names[program.access_instruction[access]]
    size = int(program.size[program.access_buffer[access]])
    return _operand(user, int(program.access_number[access]), size, program.access_path[access], exactly=exactly)


def _operand(user: str, number: int, size: int, path: str, *, exactly: bool = False) -> str:
    index = _index(path) or (_NO_TUPLE if exactly else "")
    return f"hlo_operand_filter {{ {_name(user)} operand_number: {number} {_size(size)}{index} }}"


def _position(name: str, path: str, size: int) -> str:
    return f"{_name(name)}{_index(path) or _NO_TUPLE} {_size(size)}"


def _name(name: str) -> str:
    # The compiler matches names by regular expressions; the dot is the only special character in HLO names.
    return f'instruction_name_regex: "{name.replace(".", "[.]")}"'


def _size(size: int) -> str:
    return f"size_gte: {size} size_lte: {size}"


def _index(path: str) -> str:
    numbers = parse_path(path)
    return " tuple_index { " + " ".join(f"index: {number}" for number in numbers) + " }" if numbers else ""
