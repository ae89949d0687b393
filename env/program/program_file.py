"""Program files: a program with its mapping by XLA, cycle table, variants and module. The format: docs/formats.md."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError
from .cycle_table import parse_table, table_fields
from .document import Document, read_document, write_document
from .mapping import Mapping
from .mapping_checks import check_mapping
from .mapping_file import mapping_fields, parse_mapping
from .packed_module import pack_module, unpack_module
from .program import HBM_SECTIONS, OPERAND, PROBLEM_FIELDS, REPLACEABLE_OPCODES, RESULT, Program, problem_dict
from .program_checks import check_columns
from .target import Target
from .variant import Variant

PROGRAM_FORMAT = "mallocmuzero-program"
# Version 1 has no variants and no cycle table, and is read as a program without them.
PROGRAM_VERSION = 2
# For a program in which collectives run beside other instructions, and so hold buffers. All else is version 2.
HELD_VERSION = 3
# For a program with conditionals, whether or not it has what version 3 has.
CONDITIONAL_VERSION = 4
# For a program some of whose results always go to HBM, whether or not it has what versions 3 and 4 have.
HBM_RESULTS_VERSION = 5
# The same for operands, whether or not it has what earlier versions have.
HBM_OPERANDS_VERSION = 6
# For a program some of whose buffers are split over two cores, whether or not it has what earlier versions have.
SPLIT_VERSION = 7
_VERSIONS = (1, *range(PROGRAM_VERSION, SPLIT_VERSION + 1))

# Fields of `Program.compiler` that solvers and reports calculate with.
_COMPILER_SECONDS = ("step_s", "estimate_with_copies_s")

# Types of the columns, by attribute of `Program`; `int32` where there is none.
_COLUMN_TYPES: dict[str, type] = {
    **dict.fromkeys(("instruction_names", "opcodes", "access_path", "buffer_names"), str),
    **dict.fromkeys(("compute_s", "bytes_total", "access_bytes"), np.float64),
    **dict.fromkeys(("is_output", "fast_allowed"), np.bool_),
    **dict.fromkeys(("reserved", "loop_trips", "size"), np.int64),
    "access_kind": np.int8,
}


def write_program(program: Program, path: str | os.PathLike[str], module: bytes | None = None) -> None:
    """Writes a program file. The bytes depend on the arguments alone.

    Args:
      program: the program.
      path: the file.
      module: the lowered module of the program, see `read_module`; None for a file without one.

    Raises:
      UserError: the file cannot be written, or the module is too large for one.
    """
    document: dict[str, Any] = {
        "format": PROGRAM_FORMAT,
        "version": _version(program),
        "sha256": program.sha256,
        "name": program.name,
        "family": program.family,
        **problem_dict(program),
        "production": None if program.production is None else mapping_fields(program.production),
        "compiler": program.compiler,
        "cycles": None if program.cycles is None else table_fields(program.cycles),
        "keeps_layout": None if program.keeps_layout is None else np.flatnonzero(program.keeps_layout).tolist(),
        "variants": [_variant_fields(variant) for variant in program.variants],
        "provenance": program.provenance,
    }
    if program.hbm_accesses is not None:  # known, and part of the problem only where there are any
        document.setdefault("hbm_results", {"access": []})
    if module is not None:
        document["module"] = pack_module(module)
    write_document(document, Path(path))


def read_program(path: str | os.PathLike[str]) -> Program:
    """Reads and validates a program file.

    Raises:
      UserError: there is no such file, or it cannot be read.
      FormatError: it is not a whole, consistent program file of this version.
    """
    path = Path(path)
    fields = read_document(path, PROGRAM_FORMAT, _VERSIONS)
    document = Document(path, fields, mend="capture the program again with `mallocmuzero capture`")
    columns: dict[str, Any] = {}
    for section, keys in PROBLEM_FIELDS.items():
        table = document.get(section, dict)
        for key, attribute in keys.items():
            dtype = _COLUMN_TYPES.get(attribute, np.int32)
            columns[attribute] = document.column(table, section, key, dtype)
    program = Program(
        name=document.get("name", str),
        family=document.get("family", str),
        target=_parse_target(document),
        compiler=_parse_compiler(document),
        provenance=document.notes("provenance"),
        held_since=_parse_held(document, len(columns["access_buffer"])) if "held" in fields else None,
        hbm_accesses=_parse_hbm_accesses(document, columns["access_kind"]),
        conditional=_parse_conditional(document, len(columns["loop_trips"])) if "conditionals" in fields else None,
        split=_parse_split(document, columns["size"]) if "split" in fields else None,
        **columns,
    )
    check_columns(program, document)
    _set(program, "keeps_layout", _parse_keeps_layout(document, program))
    if program.sha256 != document.get("sha256", str):
        raise document.error("sha256", "does not match the contents: the file was changed")
    production = fields.get("production")
    if production is not None:
        _set(program, "production", _parse_mapping(document.inner(production, "production."), program))
    if fields["version"] != 1:
        if fields.get("cycles") is not None:
            table = document.inner(document.get("cycles", dict), "cycles.")
            _set(program, "cycles", parse_table(table, np.diff(program.access_start)))
        _set(program, "variants", _parse_variants(document, program))
    return program


def read_module(path: str | os.PathLike[str]) -> bytes | None:
    """Reads the lowered module that a program file carries (a portable artifact of StableHLO), or None.

    No other field is validated, and `read_program` does not look at this one.

    Raises:
      UserError: there is no such file, or it cannot be read.
      FormatError: it is no program file of this version, or its module was changed.
    """
    path = Path(path)
    fields = read_document(path, PROGRAM_FORMAT, _VERSIONS)
    if fields.get("module") is None:
        return None
    try:
        return unpack_module(fields["module"])
    except FormatError as error:
        raise FormatError(
            f"{path}: field `module` {error}; add it again with `mallocmuzero capture --complete`"
        ) from error


def _parse_compiler(document: Document) -> dict[str, Any]:
    """Returns the section `compiler`; of its fields, those are checked here that are used as they are."""
    fields = document.notes("compiler")
    for name in _COMPILER_SECONDS:
        value = fields.get(name)
        if value is not None and not (_is_number(value) and 0 <= value < 1e9):
            raise document.error(f"compiler.{name}", f"is {value!r:.40}, which is no number of seconds")
    return fields


def _parse_target(document: Document) -> Target:
    fields = document.get("target", dict)
    kinds: dict[str, type | tuple[type, ...]] = {
        name: str if kind is str else ((int, float) if kind is float else int)
        for name, kind in Target.__annotations__.items()
    }
    if set(fields) != set(kinds):
        raise document.error("target", f"has the fields {sorted(fields)}, not {sorted(kinds)}")
    for name, kind in kinds.items():
        value = fields[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise document.error(f"target.{name}", f"is {value!r:.40}")
    for name in kinds.keys() - {"name"}:
        least = 0 if name == "clock_hz" else 1e-300
        if not least <= fields[name] < 2**62:
            raise document.error(f"target.{name}", f"is {fields[name]!r:.40}, out of range")
    return Target(**fields)


def _parse_held(document: Document, accesses: int) -> NDArray[np.int32]:
    columns = _two_columns(document, "held", ("access", "since"), np.int32)
    since = np.full(accesses, -1, np.int32)
    for key, column in zip(("access", "since"), columns, strict=True):
        for index in np.flatnonzero((column < 0) | (column >= accesses))[:1]:
            raise document.error(f"held.{key}[{index}]", f"is {column[index]}, outside 0..{accesses - 1}")
    since[columns[0]] = columns[1]
    return since


def _two_columns(document: Document, section: str, keys: tuple[str, str], dtype: type) -> list[NDArray[Any]]:
    """Returns the columns of a table of two, which have to be equally long."""
    table = document.get(section, dict)
    columns = [document.column(table, section, key, dtype) for key in keys]
    if len(columns[0]) != len(columns[1]):
        words = f"has {len(columns[1])} entries where {len(columns[0])} are expected"
        raise document.error(f"{section}.{keys[1]}", words)
    return columns


def _parse_hbm_accesses(document: Document, kinds: NDArray[np.int8]) -> NDArray[np.bool_] | None:
    if not document.fields.keys() & HBM_SECTIONS.keys():
        return None
    found = np.zeros(len(kinds), bool)
    for section, kind in HBM_SECTIONS.items():
        if section not in document.fields:
            continue
        column = document.column(document.get(section, dict), section, "access", np.int64)
        for index, access in enumerate(column.tolist()):
            if not 0 <= access < len(kinds) or kinds[access] != kind:
                word = "result" if kind == RESULT else "operand"
                raise document.error(f"{section}.access[{index}]", f"is {access}, which is no {word} of the program")
            found[access] = True
    return found


def _version(program: Program) -> int:
    if program.split is not None:
        return SPLIT_VERSION
    if program.hbm_accesses is not None and program.hbm_accesses.any():
        operands = program.hbm_accesses & (program.access_kind == OPERAND)
        return HBM_OPERANDS_VERSION if operands.any() else HBM_RESULTS_VERSION
    if program.conditional is not None:
        return CONDITIONAL_VERSION
    return PROGRAM_VERSION if program.held_since is None else HELD_VERSION


def _parse_conditional(document: Document, loops: int) -> NDArray[np.bool_]:
    column = document.column(document.get("conditionals", dict), "conditionals", "loop", np.int32)
    for index in np.flatnonzero((column < 0) | (column >= loops))[:1]:
        raise document.error(f"conditionals.loop[{index}]", f"is {column[index]}, outside 0..{loops - 1}")
    conditional = np.zeros(loops, bool)
    conditional[column] = True
    return conditional


def _parse_split(document: Document, size: NDArray[np.int64]) -> NDArray[np.int64]:
    buffers, parts = _two_columns(document, "split", ("buffer", "bytes"), np.int64)
    split = np.zeros(len(size), np.int64)
    for index, (buffer, part) in enumerate(zip(buffers.tolist(), parts.tolist(), strict=True)):
        if not 0 <= buffer < len(size):
            raise document.error(f"split.buffer[{index}]", f"is {buffer}, outside 0..{len(size) - 1}")
        if not size[buffer] <= 2 * part <= 2 * size[buffer]:
            half = -(-size[buffer] // 2)
            raise document.error(f"split.bytes[{index}]", f"is {part}, outside {half}..{size[buffer]}: the larger part")
        split[buffer] = part
    return split


def _parse_keeps_layout(document: Document, program: Program) -> NDArray[np.bool_] | None:
    if document.fields.get("keeps_layout") is None:
        return None
    numbers = document.array("keeps_layout", document.get("keeps_layout", list), np.int64)
    keeps = np.zeros(program.num_instructions, bool)
    for index, number in enumerate(numbers.tolist()):
        if not 0 <= number < program.num_instructions or program.opcodes[number] not in REPLACEABLE_OPCODES:
            raise document.error(f"keeps_layout[{index}]", f"is {number}, which is no `copy` or `slice` of the program")
        keeps[number] = True
    return keeps


def _parse_variants(document: Document, program: Program) -> tuple[Variant, ...]:
    variants = []
    for number, fields in enumerate(document.get("variants", list)):
        inner = document.inner(fields, f"variants[{number}].")
        options, inexpressible = inner.get("options", dict), inner.get("inexpressible", dict)
        latency_s = inner.get("latency_s", dict)
        if not all(isinstance(value, str) for value in options.values()):
            raise inner.error("options", "holds something that is not a string")
        if not all(_is_number(value) and isinstance(value, int) for value in inexpressible.values()):
            raise inner.error("inexpressible", "holds something that is not a count")
        for model, value in latency_s.items():
            if value is not None and not (_is_number(value) and 0 <= value < 1e9):
                raise inner.error(f"latency_s.{model}", f"is {value!r:.40}, which is no number of seconds")
        if bool(options) != bool(number):
            raise inner.error("options", "is not empty for the first variant, the default, or empty for another")
        mapping = fields.get("mapping")
        parsed = None if mapping is None else _parse_mapping(inner.inner(mapping, "mapping."), program)
        variants.append(Variant(options, latency_s, inexpressible, parsed))
    return tuple(variants)


def _parse_mapping(document: Document, program: Program) -> Mapping:
    """Returns a mapping whose rows fit the program: unlike that of a mapping file, no one verifies it."""
    mapping = parse_mapping(document, program)
    check_mapping(program, mapping, document)
    return mapping


def _variant_fields(variant: Variant) -> dict[str, Any]:
    return {
        "options": variant.options,
        "latency_s": variant.latency_s,
        "inexpressible": variant.inexpressible,
        "mapping": None if variant.mapping is None else mapping_fields(variant.mapping),
    }


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _set(program: Program, name: str, value: Any) -> None:
    """Sets a field of a frozen program that no one else has seen yet, and so keeps its cached hash."""
    object.__setattr__(program, name, value)
