"""Program and mapping files: gzip-compressed JSON, versioned, validated at the door. The formats: docs/formats.md."""

import gzip
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError
from ..storage.atomic import write_atomically
from ..storage.gunzip import gunzip
from .cycle_table import CycleTable, table_dict
from .mapping import COPY_FIELDS, REPLACEABLE_OPCODES, RESIDENCY_FIELDS, Mapping
from .packed_module import packed, unpacked
from .program import PROBLEM_FIELDS, Program, problem_dict
from .target import Target
from .variant import Variant

PROGRAM_FORMAT = "mallocmuzero-program"
MAPPING_FORMAT = "mallocmuzero-mapping"
# Version 1 of a program file has no variants and no cycle table, and is read as one without; mappings are as they were.
PROGRAM_VERSION = 2
MAPPING_VERSION = 1
# Far above any real file, and small enough that a hostile one cannot exhaust memory.
MAX_FILE_BYTES = 256 * 2**20

_STRINGS = {"instruction_names", "opcodes", "access_path", "buffer_names", "pair_fast"}
_FLOATS = {"compute_s", "bytes_total", "access_bytes"}
_BOOLS = {"is_output", "fast_allowed"}
_DTYPES: dict[str, type] = {
    **dict.fromkeys(("reserved", "loop_trips", "size", "pair_cycles"), np.int64),
    "access_kind": np.int8,
}
_HEXADECIMAL = re.compile("[0-9a-f]{1,4096}")


def write_program(program: Program, path: str | os.PathLike[str], module: bytes | None = None) -> None:
    """Writes a program file. The bytes depend on the arguments alone.

    Args:
      program: the program.
      path: the file.
      module: what it is compiled from again, see `read_module`.

    Raises:
      UserError: the file cannot be written, or the module is too large for one.
    """
    document: dict[str, Any] = {
        "format": PROGRAM_FORMAT,
        "version": PROGRAM_VERSION,
        "sha256": program.sha256,
        "name": program.name,
        "family": program.family,
        **problem_dict(program),
        "production": None if program.production is None else _mapping_dict(program.production),
        "compiler": program.compiler,
        "cycles": None if program.cycles is None else table_dict(program.cycles),
        "keeps_layout": None if program.keeps_layout is None else np.flatnonzero(program.keeps_layout).tolist(),
        "variants": [_variant_dict(variant) for variant in program.variants],
        "provenance": program.provenance,
    }
    if module is not None:
        document["module"] = packed(module)
    _write(document, Path(path))


def read_program(path: str | os.PathLike[str]) -> Program:
    """Reads and validates a program file.

    Raises:
      UserError: there is no such file, or it cannot be read.
      FormatError: it is not a whole, consistent program file of this version.
    """
    path = Path(path)
    document = _read(path, PROGRAM_FORMAT, (1, PROGRAM_VERSION))
    door = _Door(path, document, "capture the program again with `mallocmuzero capture`")
    values: dict[str, Any] = {}
    for section, fields in PROBLEM_FIELDS.items():
        table = door.get(section, dict)
        for key, attribute in fields.items():
            values[attribute] = door.column(table, section, key, attribute)
    program = Program(
        name=door.get("name", str),
        family=door.get("family", str),
        target=_target(door),
        compiler=door.get("compiler", dict),
        provenance=door.get("provenance", dict),
        **values,
    )
    _validate_program(program, door)
    _set(program, "keeps_layout", _keeps_layout(door, program))
    if program.sha256 != door.get("sha256", str):
        raise door.error("sha256", "does not match the contents: the file was changed")
    production = door.document.get("production")
    if production is not None:
        _set(program, "production", _mapping(_Door(path, production, door.mend, prefix="production."), program))
    if document["version"] != 1:
        _set(program, "cycles", _cycles(door, program))
        _set(program, "variants", _variants(door, program))
    return program


def read_module(path: str | os.PathLike[str]) -> bytes | None:
    """Reads the lowered module that a program file carries (a portable artifact of StableHLO), or None.

    Nothing else of the file is looked at, and reading a program does not look at this.

    Raises:
      UserError: there is no such file, or it cannot be read.
      FormatError: it is no program file of this version, or its module was changed.
    """
    path = Path(path)
    document = _read(path, PROGRAM_FORMAT, (1, PROGRAM_VERSION))
    if document.get("module") is None:
        return None
    try:
        return unpacked(document["module"])
    except FormatError as error:
        raise FormatError(
            f"{path}: field `module` {error}; add it again with `mallocmuzero capture --complete`"
        ) from error


def write_mapping(mapping: Mapping, program: Program, path: str | os.PathLike[str]) -> None:
    """Writes a mapping file for `program`. The bytes depend on the mapping alone.

    Raises:
      UserError: the file cannot be written.
    """
    document = {
        "format": MAPPING_FORMAT,
        "version": MAPPING_VERSION,
        "program": program.name,
        **_mapping_dict(mapping),
    }
    _write(document, Path(path))


def read_mapping(path: str | os.PathLike[str], program: Program) -> Mapping:
    """Reads and validates a mapping file. Whether the mapping is legal is `verify`'s to say.

    Raises:
      UserError: there is no such file, or it cannot be read.
      FormatError: it is not a whole mapping file of this version, or it maps another program.
    """
    path = Path(path)
    door = _Door(path, _read(path, MAPPING_FORMAT, (MAPPING_VERSION,)), "write the mapping again")
    return _mapping(door, program)


class _Door:
    """What stands between a document and the program: every look names the file and the field when it fails."""

    def __init__(self, path: Path, document: Any, mend: str, prefix: str = "") -> None:
        self.path, self.mend, self.prefix = path, mend, prefix
        if not isinstance(document, dict):
            raise self.error("document", "is not a JSON object")
        self.document: dict[str, Any] = document

    def error(self, name: str, trouble: str) -> FormatError:
        return FormatError(f"{self.path}: field `{self.prefix}{name}` {trouble}; {self.mend}")

    def get(self, name: str, kind: type) -> Any:
        if name not in self.document:
            raise self.error(name, "is missing")
        value = self.document[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(name, f"is not a {kind.__name__}")
        return value

    def column(self, table: dict[str, Any], section: str, key: str, attribute: str) -> Any:
        name = f"{section}.{key}"
        values = table.get(key)
        if not isinstance(values, list):
            raise self.error(name, "is missing or not a list")
        if attribute in _STRINGS:
            if not all(isinstance(value, str) for value in values):
                raise self.error(name, "holds something that is not a string")
            return tuple(values)
        if attribute in _BOOLS:
            return self.array(name, values, bool, np.bool_)
        if attribute in _FLOATS:
            return self.array(name, values, (int, float), np.float64)
        return self.array(name, values, int, _DTYPES.get(attribute, np.int32))

    def array(self, name: str, values: list[Any], kind: type | tuple[type, ...], dtype: type) -> NDArray[Any]:
        for index, value in enumerate(values):
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                raise self.error(f"{name}[{index}]", f"is {value!r:.40}, which is not a {np.dtype(dtype).name}")
        if issubclass(dtype, np.integer):
            limits = np.iinfo(dtype)
            if values and not (min(values) >= limits.min and max(values) <= limits.max):
                raise self.error(name, f"holds a number outside {limits.min}..{limits.max}")
        array: NDArray[Any] = np.array(values, dtype)
        if not np.all(np.isfinite(array)):
            raise self.error(name, "holds a number that is not finite")
        return array


def _target(door: _Door) -> Target:
    fields = door.get("target", dict)
    kinds: dict[str, type | tuple[type, ...]] = {
        name: str if kind is str else ((int, float) if kind is float else int)
        for name, kind in Target.__annotations__.items()
    }
    if set(fields) != set(kinds):
        raise door.error("target", f"has the fields {sorted(fields)}, not {sorted(kinds)}")
    for name, kind in kinds.items():
        value = fields[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise door.error(f"target.{name}", f"is {value!r:.40}")
    for name in kinds.keys() - {"name"}:
        least = 0 if name == "clock_hz" else 1e-300
        if not least <= fields[name] < 2**62:
            raise door.error(f"target.{name}", f"is {fields[name]!r:.40}, out of range")
    return Target(**fields)


def _validate_program(program: Program, door: _Door) -> None:
    """Raises `FormatError` unless the columns agree with each other. What passes is trusted everywhere else."""
    sizes = {"instructions": len(program.instruction_names), "loops": len(program.loop_trips)}
    sizes |= {"accesses": len(program.access_buffer), "buffers": len(program.buffer_names)}
    for section, fields in PROBLEM_FIELDS.items():
        for key, attribute in fields.items():
            length = len(getattr(program, attribute))
            if length != sizes[section]:
                raise door.error(f"{section}.{key}", f"has {length} entries where {sizes[section]} are expected")
    instructions, loops, buffers = sizes["instructions"], sizes["loops"], sizes["buffers"]
    for name, array, low, high in (
        ("instructions.compute_s", program.compute_s, 0, 1e9),
        ("instructions.bytes", program.bytes_total, 0, 1e18),
        ("instructions.reserved", program.reserved, 0, program.target.fast_bytes),
        ("instructions.loop", program.loop, -1, loops - 1),
        ("loops.parent", program.loop_parent, -1, loops - 1),
        ("loops.trips", program.loop_trips, 0, 2**40),
        ("loops.first", program.loop_first, 0, instructions - 1),
        ("loops.last", program.loop_last, 0, instructions - 1),
        ("accesses.instruction", program.access_instruction, 0, instructions - 1),
        ("accesses.buffer", program.access_buffer, 0, buffers - 1),
        ("accesses.kind", program.access_kind, 0, 1),
        ("accesses.bytes", program.access_bytes, 0, 1e18),
        ("buffers.size", program.size, 0, 2**50),
        ("buffers.definition", program.definition, -1, instructions - 1),
    ):
        bad = np.flatnonzero((array < low) | (array > high))
        if bad.size:
            raise door.error(f"{name}[{bad[0]}]", f"is {array[bad[0]]}, outside {low}..{high}")
    order = program.access_instruction.astype(np.int64) * 2 + program.access_kind
    if np.any(np.diff(order) < 0):
        raise door.error("accesses.instruction", "is not in order: by instruction, operands before results")
    if np.any(program.loop_parent >= np.arange(loops)):
        raise door.error("loops.parent", "names a loop that comes later: an enclosing loop comes first")
    if np.any(np.diff(program.schedule_index) <= 0):
        raise door.error("instructions.schedule_index", "does not increase")
    _validate_loops(program, door)
    _validate_definitions(program, door)


def _validate_loops(program: Program, door: _Door) -> None:
    inside = np.full(program.num_instructions, -1)
    for index, (first, last) in enumerate(zip(program.loop_first, program.loop_last, strict=True)):
        parent = program.loop_parent[index]
        if first > last or not np.all(inside[first : last + 1] == parent):
            raise door.error(f"loops.first[{index}]", "and `last` do not nest inside the enclosing loop")
        inside[first : last + 1] = index
    if not np.array_equal(inside, program.loop):
        raise door.error("instructions.loop", "does not agree with `loops.first` and `loops.last`")


def _validate_definitions(program: Program, door: _Door) -> None:
    """A buffer is defined by its first result, and nothing reads it before."""
    written = program.definition < 0
    for access, buffer in enumerate(program.access_buffer):
        if program.access_kind[access] == 0:
            if not written[buffer]:
                raise door.error(f"accesses.buffer[{access}]", f"reads buffer {buffer} before anything defines it")
        elif not written[buffer]:
            if program.definition[buffer] != program.access_instruction[access]:
                raise door.error(f"buffers.definition[{buffer}]", "is not the instruction of the buffer's first result")
            written[buffer] = True
    if not np.all(written):
        raise door.error(
            f"buffers.definition[{np.flatnonzero(~written)[0]}]", "names an instruction with no such result"
        )


def _mapping_dict(mapping: Mapping) -> dict[str, Any]:
    return {
        "program_sha256": mapping.program_sha256,
        "accesses_fast": np.flatnonzero(mapping.access_fast).tolist(),
        "residencies": {name: mapping.residencies[:, i].tolist() for i, name in enumerate(RESIDENCY_FIELDS)},
        "copies": {name: mapping.copies[:, i].tolist() for i, name in enumerate(COPY_FIELDS)},
        "origin": mapping.origin,
    }


def _mapping(door: _Door, program: Program) -> Mapping:
    refers_to = door.get("program_sha256", str)
    if refers_to != program.sha256:
        raise FormatError(
            f"{door.path}: field `{door.prefix}program_sha256` is {refers_to:.12}..., but program {program.name!r} has "
            f"{program.sha256:.12}...: this mapping belongs to another program; give the program it was made for"
        )
    fast = door.array("accesses_fast", door.get("accesses_fast", list), int, np.int64)
    if fast.size and (fast.min() < 0 or fast.max() >= program.num_accesses):
        raise door.error("accesses_fast", f"names an access outside 0..{program.num_accesses - 1}")
    access_fast = np.zeros(program.num_accesses, bool)
    access_fast[fast] = True
    tables = []
    for section, names in (("residencies", RESIDENCY_FIELDS), ("copies", COPY_FIELDS)):
        table = door.get(section, dict)
        for name in names:
            if not isinstance(table.get(name), list):
                raise door.error(f"{section}.{name}", "is missing or not a list")
        columns = [door.array(f"{section}.{name}", table[name], int, np.int64) for name in names]
        if len({len(column) for column in columns}) != 1:
            raise door.error(section, "has columns of different lengths")
        tables.append(np.stack(columns, axis=1))
    return Mapping(refers_to, access_fast, tables[0], tables[1], door.get("origin", dict))


def _keeps_layout(door: _Door, program: Program) -> NDArray[np.bool_] | None:
    if door.document.get("keeps_layout") is None:
        return None
    numbers = door.array("keeps_layout", door.get("keeps_layout", list), int, np.int64)
    keeps = np.zeros(program.num_instructions, bool)
    for index, number in enumerate(numbers.tolist()):
        if not 0 <= number < program.num_instructions or program.opcodes[number] not in REPLACEABLE_OPCODES:
            raise door.error(f"keeps_layout[{index}]", f"is {number}, which is no `copy` or `slice` of the program")
        keeps[number] = True
    return keeps


def _cycles(door: _Door, program: Program) -> CycleTable | None:
    if door.document.get("cycles") is None:
        return None
    inner = _Door(door.path, door.get("cycles", dict), door.mend, prefix="cycles.")
    columns = inner.get("pairs", dict)
    row = inner.array("row", inner.get("row", list), int, np.int32)
    pair_row = inner.column(columns, "pairs", "row", "pair_row")
    fast = inner.column(columns, "pairs", "fast", "pair_fast")
    cycles = inner.column(columns, "pairs", "cycles", "pair_cycles")
    if len(row) != program.num_instructions:
        raise inner.error("row", f"has {len(row)} entries where {program.num_instructions} are expected")
    for name, values in (("fast", fast), ("cycles", cycles)):
        if len(values) != len(pair_row):
            raise inner.error(f"pairs.{name}", f"has {len(values)} entries where {len(pair_row)} are expected")
    rows = int(row.max(initial=-1)) + 1
    accesses = np.diff(program.access_start)
    bits = [-1] * rows
    for t, of in enumerate(row.tolist()):
        if of < -1:
            raise inner.error(f"row[{t}]", f"is {of}, outside -1..{rows - 1}")
        if of >= 0 and bits[of] not in (-1, accesses[t]):
            raise inner.error(
                f"row[{t}]", f"is {of}, a row of instructions with {bits[of]} accesses, not {accesses[t]}"
            )
        if of >= 0:
            bits[of] = int(accesses[t])
    placements = []
    for index, (of, text, value) in enumerate(zip(pair_row.tolist(), fast, cycles.tolist(), strict=True)):
        if not 0 <= of < rows or bits[of] < 0:
            raise inner.error(f"pairs.row[{index}]", f"is {of}, which no instruction has")
        if not _HEXADECIMAL.fullmatch(text) or int(text, 16) >> bits[of]:
            raise inner.error(f"pairs.fast[{index}]", f"is {text!r:.40}, no hexadecimal set of {bits[of]} accesses")
        if value < 0:
            raise inner.error(f"pairs.cycles[{index}]", f"is {value}, outside 0..")
        placements.append(int(text, 16))
    order = list(zip(pair_row.tolist(), placements, strict=True))
    if any(first >= second for first, second in itertools.pairwise(order)):
        raise inner.error("pairs.fast", "is not in order: by row, then placement, each pair once")
    missing = set(range(rows)) - set(pair_row.tolist())
    if missing:
        raise inner.error("pairs.row", f"has no pair of row {min(missing)}")
    for name in ("compilations", "ambiguous"):
        if not 0 <= inner.get(name, int) < 2**31:
            raise inner.error(name, "is out of range")
    compilations, ambiguous = inner.get("compilations", int), inner.get("ambiguous", int)
    return CycleTable(row, pair_row, tuple(placements), cycles, compilations, ambiguous)


def _variants(door: _Door, program: Program) -> tuple[Variant, ...]:
    found = []
    for number, document in enumerate(door.get("variants", list)):
        inner = _Door(door.path, document, door.mend, prefix=f"variants[{number}].")
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
        mapping = document.get("mapping")
        found.append(
            Variant(
                options,
                latency_s,
                inexpressible,
                None
                if mapping is None
                else _mapping(_Door(door.path, mapping, door.mend, f"{inner.prefix}mapping."), program),
            )
        )
    return tuple(found)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _variant_dict(variant: Variant) -> dict[str, Any]:
    return {
        "options": variant.options,
        "latency_s": variant.latency_s,
        "inexpressible": variant.inexpressible,
        "mapping": None if variant.mapping is None else _mapping_dict(variant.mapping),
    }


def _set(program: Program, name: str, value: Any) -> None:
    object.__setattr__(program, name, value)  # still private to the reader; keeps the cached hash


def _read(path: Path, expected_format: str, versions: tuple[int, ...]) -> dict[str, Any]:
    data = gunzip(path, MAX_FILE_BYTES, expected_format)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:  # also of a number with more digits than Python reads
        raise FormatError(f"{path}: is not JSON ({error}); write it again") from error
    if not isinstance(document, dict) or document.get("format") != expected_format:
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise FormatError(f"{path}: field `format` is {found!r:.60}, not {expected_format!r}; give a file of that kind")
    version = document.get("version")
    if version not in versions or isinstance(version, bool):
        raise FormatError(
            f"{path}: field `version` is {version!r:.20}, and this release reads {' and '.join(map(str, versions))}; "
            "write the file again with this release"
        )
    return document


def _write(document: dict[str, Any], path: Path) -> None:
    """Writes all or nothing: a full disk leaves the file that was there."""
    data = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    packed = gzip.compress(data, compresslevel=9, mtime=0)
    write_atomically(path, packed)
