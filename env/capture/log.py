"""Parses the log of memory space assignment, MSA (pipeline step 2): costs, schedule, allocations, estimates.

`worker.LOG_MODULES` are the log settings that print all of it. Lines are recognised by their source file and their
text; their line numbers change with every release of the compiler.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import FormatError
from .allocation import Allocation, parse_allocation
from .hlo import Position, Use, parse_path

_PREFIX = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ([\w.\-/]+):\d+\] ?(.*)$", re.DOTALL)
# The last name is `shape_index`; older versions abbreviate it.
_COST = re.compile(
    r"^Cost for <type=([\w\-]+),computation=[^,]*,instruction=([^,]*),operand_num=([^,]*),\w+=(.*)> is (\S+)$"
)
_RESOURCE = re.compile(r"^Initial resource\[(\d+)\] = (\S+) \((.*)\)$")
_VALUE = re.compile(r"<(\d+) ([\w.\-]+)(\{[\d,]*\})?(?: @\d+)?>")
_ACCESSED = re.compile(r"^ +(pos|use): ([\w.\-]+)(?:, operand (\d+))?(?: (\{[\d,]*\}))?, accessed: (\d+) / (\d+)$")
_EXPORTED = re.compile(r"^ \[(\d+), (\d+)\] : ([\w.\-]+)(?: (\{[\d,]*\}))? \(")
_SIMULATED = re.compile(
    r"^(\d+): instruction: (\S+)( \(xprogram prefetch\))?; elapsed: (\S+); "
    r"cumulative available transfer bytes: \S+; trip count: (\d+)"
)
_SIZE = re.compile(r" Size = (\d+),")
_SOUGHT_FOR = re.compile(r" value = (<[^>]*>) \[.* use = ([\w.\-]+), operand (\d+)(?: (\{[\d,]*\}))?\. Size = ")
_OFFSETS = re.compile(r"offsets = \{ ([\d, ]+) \}")
_TYPICAL = re.compile(r"prefetch picker = Async copy elapsed \(s\) = ([\d.e+\-]+)", re.IGNORECASE)
_GRANTED = "Assigning buffers to alternate memory. Max heap size = "
_REQUIRED = re.compile(r" at (\d+) at def$")
_OPTION = re.compile(r"^(\w+): (-?\d+)$")
_COUNTS = {
    re.compile(r"^Maximum number of outstanding async copies/slices: (\d+)"): ("outstanding",),
    re.compile(r"^Number of prefetches: (\d+), in bytes: (\d+)"): ("prefetches", "prefetch_bytes"),
    re.compile(r"^Number of sliced prefetches: (\d+), consuming number of slices: (\d+)"): (
        "sliced_prefetches",
        "slices",
    ),
    re.compile(r"^Number of evictions: (\d+), in bytes: (\d+)"): ("evictions", "eviction_bytes"),
    re.compile(r"^\s*number of successful async conversion: (\d+)"): ("replaced_synchronous",),
}
_ESTIMATE = re.compile(r"^Estimated elapsed time (with|without) async copies \(sec\): (\S+)")
_BUFFER_TABLE = "buffer_id,buffer_name,alt_mem_benefit,size,definition_time,use_times,use_names,is_scoped"


@dataclass
class CompilerLog:
    """The contents of one run's log. Seconds and bytes are the compiler's own figures.

    Attributes:
      options: numeric options of MSA by name, e.g. `max_size_in_bytes`.
      schedule: instruction name by time.
      elapsed: seconds of an instruction with everything in HBM.
      compute_s: seconds of an instruction's computation.
      total_bytes: bytes that an instruction accesses, to six digits.
      operand_bytes, output_bytes: bytes that an instruction accesses of one array.
      buffer_size: bytes of the values that MSA may place.
      scoped: bytes of fast memory that an instruction reserves for itself, by time.
      required_in_hbm: times at which a value has to be in HBM.
      skipped: reason by value that MSA does not place.
      order: the values whose turns came, in order; some more than once.
      sought: bytes of fast memory that MSA sought for a value and a use, possibly one of a slice of it.
      slices: bytes of the slices of a value that MSA tried to prefetch, lowest bytes first; none if only as a whole.
      typical_copy_s: seconds of the copy by which MSA chooses the starts of all copies, to six digits; None if it chose
        none.
      alias_groups: values that MSA placed as one.
      allocations: in the order of the log.
      exported: offset and bytes in fast memory by value.
      timeline: instruction name and seconds, in the order that MSA's simulator runs them.
      trips: runs of an instruction in all, as the compiler assumes.
      counts: numbers and bytes of copies that MSA reports.
      estimates: seconds of the program `with` and `without` copies.
    """

    options: dict[str, int] = field(default_factory=dict)
    schedule: dict[int, str] = field(default_factory=dict)
    elapsed: dict[str, float] = field(default_factory=dict)
    compute_s: dict[str, float] = field(default_factory=dict)
    total_bytes: dict[str, float] = field(default_factory=dict)
    operand_bytes: dict[Use, float] = field(default_factory=dict)
    output_bytes: dict[Position, float] = field(default_factory=dict)
    buffer_size: dict[Position, int] = field(default_factory=dict)
    scoped: dict[int, int] = field(default_factory=dict)
    required_in_hbm: dict[Position, set[int]] = field(default_factory=dict)
    skipped: dict[Position, str] = field(default_factory=dict)
    order: list[Position] = field(default_factory=list)
    sought: dict[tuple[Position, Use], int] = field(default_factory=dict)
    slices: dict[Position, list[int]] = field(default_factory=dict)
    typical_copy_s: float | None = None
    alias_groups: list[set[Position]] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    exported: dict[Position, tuple[int, int]] = field(default_factory=dict)
    timeline: list[tuple[str, float]] = field(default_factory=list)
    trips: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    estimates: dict[str, float] = field(default_factory=dict)

    @property
    def written_to_hbm(self) -> set[Position]:
        """Values that their instruction always writes to HBM.

        Older versions of the compiler require results of the program too, in HBM at its end.
        """
        return {
            position
            for position, times in self.required_in_hbm.items()
            if any(self.schedule.get(time) == position[0] for time in times)
        }


def read_log(path: Path) -> CompilerLog:
    """Reads a compiler log, line by line, since it can be hundreds of megabytes. Its last run of MSA counts.

    Raises:
      FormatError: the log does not hold a whole run of MSA.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            log = parse_log(file)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    if not log.schedule:
        raise FormatError(
            f"{path}: has no `Initial resource` lines, so memory space assignment did not run or did not log; "
            "compile for a TPU, with the log settings of mallocmuzero/env/capture/worker.py"
        )
    for missing, present in (
        ("max_size_in_bytes", "max_size_in_bytes" in log.options),
        (_BUFFER_TABLE.split(",is")[0], bool(log.buffer_size)),
        ("Post-Processing", bool(log.allocations)),
        ("Estimated elapsed time without async copies", "without" in log.estimates),
        ("Estimated elapsed time with async copies", "with" in log.estimates),
    ):
        if not present:
            raise FormatError(
                f"{path}: has no `{missing}` lines; the log is truncated or its settings differ: capture again"
            )
    return log


def parse_log(lines: Iterable[str]) -> CompilerLog:
    """Returns the contents of a log's lines; unlike `read_log`, without a check that nothing is missing."""
    reader = _Reader()
    for line in lines:
        match = _PREFIX.match(line.rstrip("\n"))
        if match:
            reader.take(match.group(1).rpartition("/")[2], match.group(2))
    return reader.log


class _Reader:
    """Takes the lines of a log one by one, by the source file that wrote them."""

    def __init__(self) -> None:
        self.log = CompilerLog()
        self._joint: list[Position] = []
        self._group: list[Position] = []
        self._list: list[Position] | None = None
        self._seen: set[str] = set()
        self._sought, self._prefetches = 0, False

    def take(self, source: str, text: str) -> None:
        if source == "op_cost.cc":
            self._cost(text)
        elif source == "algorithm.cc":
            self._algorithm(text)
        elif source == "memory_space_assignment.cc":
            self._assignment(text)
        elif source == "simulator.cc":
            match = _SIMULATED.match(text)
            if match:
                self.log.timeline.append((match.group(2), float(match.group(4))))
                self.log.trips[match.group(2)] = int(match.group(5))

    def _cost(self, text: str) -> None:
        if text in self._seen:  # The compiler logs a cost at every query.
            return
        self._seen.add(text)
        match = _COST.match(text)
        if not match:
            return
        kind, name, operand, path, text = match.group(1), *match.groups()[1:]
        value = max(float(text), 0.0)  # -1 where the compiler has no figure, as for the halves of complex numbers
        if kind == "compute-seconds":
            self.log.compute_s[name] = value
        elif kind == "total-bytes-accessed":
            self.log.total_bytes[name] = value
        elif kind == "operand-bytes-accessed":
            self.log.operand_bytes.setdefault((name, int(operand), parse_path(path)), value)
        elif kind == "output-bytes-accessed":
            self.log.output_bytes.setdefault((name, parse_path(path)), value)

    def _algorithm(self, text: str) -> None:
        log = self.log
        if text.startswith("Initial resource"):
            match = _RESOURCE.match(text)
            if match:
                log.schedule[int(match.group(1))] = match.group(3)
                log.elapsed[match.group(3)] = float(match.group(2))
        elif text.startswith("    "):
            self._accessed(text)
        elif text.startswith("  ") and self._list is not None and "<" in text:
            position = _position(text)
            if position:
                self._list.append(position)
        elif text.startswith("Joint-processed values"):
            self._joint = self._list = []
        elif text.startswith("Joint-processed allocation values"):
            self._group = self._list = []
        elif text.startswith("Adding required assignment: <"):
            position, required = _position(text), _REQUIRED.search(text)
            if position and required:
                log.required_in_hbm.setdefault(position, set()).add(int(required.group(1)))
        elif text.startswith("Processing buffer: <"):
            self._list = None
            position = _position(text)
            if position:
                log.order.append(position)
        elif text.startswith("Skip <"):
            position = _position(text)
            if position:
                log.skipped[position] = text.partition(" because ")[2].rstrip(".")
        elif text.startswith("Finalized allocations"):
            # Joint processing of several values is the replacement of synchronous copies, not aliasing.
            if len(self._joint) == 1 and len(set(self._group)) > 1:
                log.alias_groups.append(set(self._group))
            self._list = None
        elif text[:1].isdigit() or text[:1] == "-":
            self._table_row(text)
        else:
            self._list = None
            if text.startswith("Finding allocation for "):
                self._seek(text)
            elif text.startswith("Trying prefetch picker"):
                self._prefetches = True
            elif text.startswith("AllocateSegment result"):
                self._prefetches = False
            elif text.startswith("FindBestChunkCandidates") and self._prefetches and log.order:
                self._slices(text)
            elif text.startswith(_GRANTED):  # Versions of jax before 0.7 list no options.
                log.options.setdefault("max_size_in_bytes", int(text.removeprefix(_GRANTED)))
            typical = _TYPICAL.search(text) if log.typical_copy_s is None else None
            if typical:
                log.typical_copy_s = float(typical.group(1))
            self._count(text)

    def _seek(self, text: str) -> None:
        size, sought = _SIZE.search(text), _SOUGHT_FOR.search(text)
        self._sought = int(size.group(1)) if size else 0
        position = _position(sought.group(1)) if sought else None
        if sought and position:
            use = sought.group(2), int(sought.group(3)), parse_path(sought.group(4) or "")
            self.log.sought[position, use] = self._sought

    def _slices(self, text: str) -> None:
        """Takes the sizes of slices from the offsets that they would have, one after the other."""
        match = _OFFSETS.search(text)
        if match is None:
            return
        offsets = sorted(map(int, match.group(1).split(", ")))
        ends = [*offsets[1:], offsets[0] + self._sought]
        sizes = [end - begin for begin, end in zip(offsets, ends, strict=True)]
        if len(sizes) > 1 or self.log.order[-1] not in self.log.slices:
            self.log.slices[self.log.order[-1]] = sizes if len(sizes) > 1 else []

    def _accessed(self, text: str) -> None:
        """Takes bytes as whole numbers; the cost lines round them to six digits."""
        match = _ACCESSED.match(text)
        if not match:
            return
        kind, name, operand, path, accessed, _ = match.groups()
        if kind == "use" and operand is not None:
            self.log.operand_bytes[name, int(operand), parse_path(path or "")] = float(accessed)
        elif kind == "pos":
            self.log.output_bytes[name, parse_path(path or "")] = float(accessed)

    def _table_row(self, text: str) -> None:
        if '"<' not in text and '"scoped allocation for ' not in text:
            return  # A row of the allocation table, which holds less than the allocations themselves.
        row = next(csv.reader([text]))
        if len(row) != 8:
            return
        if row[7] == "1":
            time = int(row[4])
            self.log.scoped[time] = max(self.log.scoped.get(time, 0), int(row[3]))
            return
        position = _position(row[1])
        if position:
            self.log.buffer_size[position] = int(row[3])

    def _assignment(self, text: str) -> None:
        log = self.log
        if text.startswith("Post-Processing: "):
            allocation = parse_allocation(text.removeprefix("Post-Processing: "))
            if allocation:
                log.allocations.append(allocation)
        elif text.startswith(" ["):
            match = _EXPORTED.match(text)
            if match:
                log.exported[match.group(3), parse_path(match.group(4) or "")] = (
                    int(match.group(1)),
                    int(match.group(2)),
                )
        elif text.startswith(("memory_space_assignment_options", "Module before memory space assignment")):
            if log.schedule:  # MSA starts over; costs stay valid.
                self.log = CompilerLog(
                    compute_s=log.compute_s,
                    total_bytes=log.total_bytes,
                    operand_bytes=log.operand_bytes,
                    output_bytes=log.output_bytes,
                )
        elif text.startswith("Estimated elapsed time"):
            match = _ESTIMATE.match(text)
            if match:
                log.estimates[match.group(1)] = float(match.group(2))
        else:
            option = _OPTION.match(text)
            if option:
                log.options[option.group(1)] = int(option.group(2))
            else:
                self._count(text)

    def _count(self, text: str) -> None:
        for pattern, names in _COUNTS.items():
            match = pattern.match(text)
            if match:
                self.log.counts.update(zip(names, map(int, match.groups()), strict=True))


def _position(text: str) -> Position | None:
    match = _VALUE.search(text)
    return (match.group(2), parse_path(match.group(3) or "")) if match else None
