"""Captures a program: compiles a user's function in another interpreter and writes the program file."""

import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import FormatError, UserError
from ..program.mapping import Mapping as ProgramMapping
from ..program.packed_module import pack_module
from ..program.program import Program
from ..program.program_file import write_program
from ..program.target import GENERATIONS, TOPOLOGIES
from . import plan
from .archive import ANSWER_FILE, Archive, cut_down
from .assemble import Assembly
from .compiler import ASSIGNMENT, CODE, LOWERING, TIME_LIMIT_S, Compiler
from .environment import managed_python
from .folder import work_folder
from .modules import module_in

# Compilations through code generation besides the default, where the variants are asked for.
PASSES = 4
# A share of new pairs below which further compilations are not worth their time.
_RARE = 0.02
_NO_OPTIONS: Mapping[str, str] = {}


def capture(
    function: str,
    target: str,
    output: Path,
    *,
    python: Path | None = None,
    name: str | None = None,
    family: str | None = None,
    options: Mapping[str, str] = _NO_OPTIONS,
    working_folder: Path | None = None,
    keep: Path | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    passes: int = 0,
    variants_s: float = math.inf,
    archive: Archive | None = None,
    progress: Callable[[str], None] = print,
) -> Program:
    """Compiles `function` for a TPU and writes the program with XLA's production mapping to `output`.

    Args:
      function: `PKG.MODULE:FUNCTION`; takes no argument and returns `(function, arguments)`, see `worker.py`.
      target: a key of `TOPOLOGIES`.
      output: the program file.
      python: interpreter with jax, libtpu and whatever the function needs; by default a managed environment.
      name: name of the workload; by default the function's, with dashes.
      family: its model family; by default the name.
      options: compiler options.
      working_folder: where the module is looked for first; by default the current folder.
      keep: folder to leave dumps and log in; by default they are temporary.
      time_limit_s: seconds after which one compilation is given up.
      passes: 0 for the default compilation alone; else also the variants of `plan.grid`, and a cycle table from the
        default and at most so many further compilations.
      variants_s: seconds after which no further compilation of those is begun that would probably end later. Where not
        even the first fits in, there are neither variants nor cycles.
      archive: finished compilations are kept there and taken from there.
      progress: takes one line at a time.

    Returns:
      The program, as written.

    Raises:
      UserError: something that the user gave does not work; the message says what.
      FormatError: the compiler's output is not what capture understands.
    """
    module, _, attribute = function.partition(":")
    if not module or not attribute:
        raise UserError(f"{function!r} is no PKG.MODULE:FUNCTION, e.g. my_model:training_step")
    if target not in TOPOLOGIES:
        raise UserError(f"no target is called {target!r}; the targets are {', '.join(TOPOLOGIES)}")
    if not output.parent.is_dir():
        raise UserError(f"{output}: there is no folder {output.parent}; make it first")
    name = name or attribute.replace("_", "-")
    until = time.monotonic() + variants_s
    interpreter = managed_python(progress) if python is None else python
    with (
        work_folder(keep) as folder,
        Compiler(interpreter, function, TOPOLOGIES[target], folder, working_folder, time_limit_s) as compiler,
        Compiler(interpreter, function, TOPOLOGIES[target], folder, working_folder, time_limit_s) as quick,
    ):
        progress(f"compiling {function} for {target} with {interpreter}; large models take minutes")
        stage = _Compilations(folder, compiler, quick, options, archive, keep is not None, progress)
        made, versions = stage.make(plan.DEFAULT, {}, CODE, dumps=True)
        provenance = {
            "function": function,
            "topology": TOPOLOGIES[target],
            "compiler_options": dict(options),
            **versions,
        }
        assembly = Assembly(made, GENERATIONS[target], name, family or name, provenance)
        stage.drop(made)
        lowered = stage.module()
        with_variants = passes > 0 and _Variants(stage, assembly, passes, progress, until).run()
    program = assembly.program(variants=with_variants)
    write_program(program, output, lowered)
    for reason, count in program.compiler["inexpressible"].items():
        progress(f"of XLA's mapping not expressible: {reason}, {count} times")
    if program.production is None:
        progress("XLA's mapping is left out: it cannot be told without breaking the rules")
    if program.cycles is not None:
        table = program.cycles
        progress(
            f"cycles: {table.num_pairs} pairs in {table.num_rows} rows from {table.compilations} compilations, "
            f"{table.ambiguous} ambiguous"
        )
    size = output.stat().st_size / 2**10
    progress(f"wrote {output}: {program.num_instructions} instructions, {program.num_buffers} buffers, {size:.0f} KiB")
    return program


class _Compilations:
    """Makes compilations, or takes them from the archive, each in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        compiler: Compiler,
        quick: Compiler,
        options: Mapping[str, str],
        archive: Archive | None,
        keep: bool,
        progress: Callable[[str], None],
    ) -> None:
        self._folder, self._compiler, self._quick = folder, compiler, quick
        self._options, self._archive, self._keep, self.progress = options, archive, keep, progress
        self._longest_s = {CODE: 0.0, ASSIGNMENT: 0.0, LOWERING: 0.0}

    def fits(self, through: str, until: float) -> bool:
        """Returns whether a compilation as long as the longest so far would end before `until`, a monotonic time."""
        return time.monotonic() + self._longest_s[through] <= until

    def make(
        self, name: str, options: Mapping[str, str], through: str, dumps: bool = False
    ) -> tuple[Path, dict[str, str]]:
        """Returns the folder of a compilation, and the versions that made it.

        Raises:
          UserError: it cannot be made.
          FormatError: the compiler did not say its versions.
        """
        folder = self._folder / name
        folder.mkdir()
        request = {"options": {**self._options, **options}, "through": through}
        if not self._fetch(name, request, folder):
            begun = time.monotonic()
            compiler = self._quick if through == ASSIGNMENT else self._compiler
            cpu_s = compiler.compile(folder, request["options"], through, dump=dumps)  # type: ignore[arg-type]
            answer = {"cpu_s": cpu_s, "versions": compiler.versions()}
            (folder / ANSWER_FILE).write_text(json.dumps(answer), encoding="utf-8")
            if not self._keep:
                cut_down(folder, dumps=dumps, costs=dumps)
            if self._archive is not None:
                self._archive.store(name, request, folder)
            wall_s = time.monotonic() - begun
            self._longest_s[through] = max(self._longest_s[through], wall_s)
            if through != LOWERING:
                self.progress(f"compiled {name} through {through}: {cpu_s:.0f} s of processor time, {wall_s:.0f} s")
        answer = json.loads((folder / ANSWER_FILE).read_text(encoding="utf-8"))
        return folder, dict(answer["versions"])

    def module(self) -> bytes | None:
        """Returns the lowered module, or None, saying why, where it cannot be had or is too large for the file."""
        try:
            folder, _ = self.make("module", {}, LOWERING)
            module = module_in(folder)
            self.drop(folder)
            pack_module(module)
        except (UserError, FormatError) as error:
            self.progress(f"the file goes without the lowered module, so that `impose` will need the source: {error}")
            return None
        return module

    def _fetch(self, name: str, request: Mapping[str, object], folder: Path) -> bool:
        """Takes a compilation from the archive; one that went to the end also serves where less is asked for."""
        archive = self._archive
        return archive is not None and (
            archive.fetch(name, request, folder)
            or (request["through"] == ASSIGNMENT and archive.fetch(name, {**request, "through": CODE}, folder))
        )

    def drop(self, folder: Path) -> None:
        """Removes a folder that has been read."""
        if not self._keep:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


class _Variants:
    """Adds the grid and the cycles to a program: the mapping of every option set, the cycles of what is most worth it.

    Code generation takes nine tenths of a large compilation, and only it tells the cycles. Mappings are read from
    compilations that end before; then those variants whose mappings hold most unseen pairs are compiled to the end, and
    at last placements in a random order, until new pairs grow rare or `passes` are spent.
    """

    def __init__(
        self,
        stage: _Compilations,
        assembly: Assembly,
        passes: int,
        progress: Callable[[str], None],
        until: float = math.inf,
    ) -> None:
        self._stage, self._assembly, self._left, self._progress = stage, assembly, passes, progress
        self._until = until

    def run(self) -> bool:
        """Makes the compilations; returns whether there was time for the first, without which there is no table."""
        grid = {name: options for name, options in plan.grid().items() if options}
        if not self._stage.fits(CODE, self._until):
            self._progress("no time for the code generator's cycles and the flag grid")
            return False
        self._cycles("in-hbm", plan.IN_HBM)
        mappings: dict[str, ProgramMapping] = {}
        for name, options in grid.items():
            if not self._stage.fits(ASSIGNMENT, self._until):
                self._assembly.leave_out(options, "no time was left")
                continue
            mapping = self._mapping(name, options)
            if mapping is not None:
                mappings[name] = mapping
        # Leave one for the random orders: they show placements that no variant of the grid has.
        while mappings and self._left > 1 and self._stage.fits(CODE, self._until):
            unseen = {name: self._assembly.unseen(mapping) for name, mapping in mappings.items()}
            name = max(unseen, key=unseen.__getitem__)
            if unseen[name] <= _RARE * self._assembly.pairs.pairs:
                break
            del mappings[name]
            self._cycles(name, grid[name])
        seed = 0
        while self._left > 0 and self._stage.fits(CODE, self._until):
            counts = self._cycles(f"shuffled-{seed}", plan.shuffled(seed))
            seed += 1
            if seed > 1 and counts is not None and counts["new"] <= _RARE * self._assembly.pairs.pairs:
                break
        for name, mapping in mappings.items():
            left = self._assembly.unseen(mapping)
            if left:
                self._progress(f"{name}: the cycles of {left} of its pairs are completed, not seen")
        return True

    def _cycles(self, name: str, options: plan.Options) -> dict[str, int] | None:
        """Takes the cycles of one compilation, or None where it failed."""
        self._left -= 1
        try:
            folder, _ = self._stage.make(f"{name}-cycles", options, CODE)
            counts = self._assembly.add_cycles(folder)
        except (UserError, FormatError) as error:
            self._fail(name, options, error)
            return None
        self._progress(f"{name}: {counts['new']} new pairs of {counts['pairs']}")
        self._stage.drop(folder)
        return counts

    def _mapping(self, name: str, options: plan.Options) -> ProgramMapping | None:
        """Takes the mapping of one compilation, or None where it failed or the mapping cannot be told."""
        try:
            folder, _ = self._stage.make(name, options, ASSIGNMENT)
            mapping = self._assembly.add_variant(options, folder)
        except (UserError, FormatError) as error:
            self._fail(name, options, error)
            return None
        self._stage.drop(folder)
        return mapping

    def _fail(self, name: str, options: plan.Options, error: Exception) -> None:
        self._progress(f"{name} is left out: {error}")
        self._assembly.leave_out(options, str(error))
