"""The subject of a report: a run directory, a mapping file, or the JSON file of a tuning, told apart by its content."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...env import workloads
from ...env.errors import FormatError, UserError
from ...env.physics.cost import MSA
from ...env.program.document import Document
from ...env.program.mapping import Mapping
from ...env.program.mapping_file import MAPPING_FORMAT, parse_mapping, read_mapping
from ...env.program.program import Program
from ...env.storage.atomic import sha256_of
from ..run.directory import RunDirectory
from ..run.json_file import read_json_file
from .curves import charts
from .tuning import is_tuning, tuning_view

# Programs of a run that the page shows, unless others are named.
_MOST_PROGRAMS = 4
_MAX_BYTES = 256 * 2**20


@dataclass(frozen=True, eq=False)
class Subject:
    """What a report is about.

    Attributes:
      kind: `run`, `mapping` or `tuning`.
      title: its name.
      mapped: programs with the mapping of each; None where there is none to show.
      objective: the objective that it was made for; None if that is not known.
      command: the command that makes it again.
      facts: names and values to repeat it: seeds, versions, hashes.
      notes: what the page lacks, and why; what the command cannot promise.
      charts: learning curves of a run.
      best: of a run, by program, the best mapping's `latency_us` and `of_production`.
      tuning: of a tuning, the compiler's answers.
    """

    kind: str
    title: str
    mapped: list[tuple[Program, Mapping | None]]
    objective: str | None
    command: str
    facts: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)
    charts: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    tuning: dict[str, Any] | None = None


def open_subject(path: Path, program: str | None, shown: list[str] | None) -> Subject:
    """Reads what a report is about.

    Args:
      path: a run directory, a mapping file, or the JSON file of a tuning.
      program: name of a workload or a program file, for a mapping or a tuning whose program is no workload.
      shown: names of the programs of a run to show; None for the first few.

    Raises:
      UserError: it is none of these, or its program is not known.
      FormatError: it is damaged.
    """
    if path.is_dir():
        if program is not None:
            raise UserError("--program goes with a mapping or a tuning; of a run, choose programs with --workload")
        return _run(RunDirectory(path), shown)
    if shown is not None:
        raise UserError(f"--workload chooses programs of a run, and {path} is a file; leave it out")
    document = _read_json(path)
    if isinstance(document, dict) and document.get("format") == MAPPING_FORMAT:
        return _mapping(path, document, program)
    if is_tuning(document):
        return _tuning(path, document, program)
    raise FormatError(f"{path}: {_what(document)}; give a run directory, a mapping, or what `tune --json` wrote")


def _read_json(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if zipped else path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise FormatError(f"{path}: holds more than {_MAX_BYTES} bytes; it is no mapping and no tuning")
        return json.loads(data)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    except (ValueError, EOFError, RecursionError) as error:
        raise FormatError(
            f"{path}: is no JSON ({error}); give a run directory, a mapping, or what `tune --json` wrote"
        ) from error


def _what(document: Any) -> str:
    if isinstance(document, dict) and document.get("format") == "mallocmuzero-program":
        return "is a program; solve it first"
    if isinstance(document, dict) and document and all(str(key).startswith("xla_") for key in document):
        return "holds compiler options alone"
    return "is neither a mapping nor a tuning"


def _program(path: Path, name: str, given: str | None) -> Program:
    """Returns the program of a file: the one that was given, or the workload of that name."""
    if given is not None:
        return workloads.load(given)
    if not workloads.is_workload(name):
        raise UserError(f"{path}: is of the program {name!r}, which is no workload; give its file with --program FILE")
    return workloads.load(name)


def _mapping(path: Path, document: dict[str, Any], given: str | None) -> Subject:
    program = _program(path, str(document.get("program")), given)
    mapping = read_mapping(path, program)
    origin = mapping.origin
    objective = origin.get("objective")
    said = given if given is not None else program.name
    options = [
        f"--{option} {origin[key]}"
        for option, key in (("solver", "solver"), ("seed", "seed"), ("objective", "objective"))
        if key in origin
    ]
    notes = []
    if "evaluations" in origin:
        options.append(f"--evaluations {origin['evaluations']}")
        notes.append(
            "Equal seeds and games give equal mappings where the number of games was the only limit; a limit of "
            "seconds cuts a search at another place each time."
        )
        command = f"mallocmuzero solve {said} {' '.join(options)} -o {path.name}"
    else:
        command = f"mallocmuzero verify {said} {path.name}"
        notes.append("The file does not say which command made it; this one checks it.")
    facts = [
        ("program", f"{program.name}, sha256 {program.sha256}"),
        ("mapping file", f"{path.name}, sha256 {sha256_of(path)}"),
        *((key, str(value)) for key, value in origin.items() if len(str(value)) < 80),
    ]
    return Subject(
        "mapping", program.name, [(program, mapping)], objective, command, facts, notes, best={}, tuning=None
    )


def _tuning(path: Path, document: dict[str, Any], given: str | None) -> Subject:
    view = tuning_view(document, path)
    name, file = str(document["program"]), document.get("program_file")
    if given is None and isinstance(file, str):
        given = next((str(place) for place in (Path(file), path.parent / file) if place.is_file()), None)
    notes: list[str] = []
    mapped: list[tuple[Program, Mapping | None]] = []
    objective = document.get("objective")
    if "mapping" not in document:
        notes.append("The file holds no mapping, so there is no memory map: it is of an older version.")
    elif given is None and not workloads.is_workload(name):
        notes.append(
            "There is no memory map: the program is not here. `tune --program-output FILE` keeps it; give it with "
            "`report --program FILE`."
        )
    else:
        program = _program(path, name, given)
        fields = Document(path, document["mapping"], mend="write the file again", prefix="mapping.")
        mapped = [(program, parse_mapping(fields, program))]
        if objective != MSA and program.cycles is None:
            notes.append(
                "There was time for the cycles of XLA's own mapping alone, so the memory map is judged by msa; with "
                "more --minutes, by both cost models."
            )
            objective = MSA
    function = document.get("function")
    parts = ["mallocmuzero"]
    if function is not None:
        parts += ["tune", str(function), "--target", str(document.get("target"))]
        parts += [
            f"--{key} {document[key]}"
            for key in ("minutes", "solver", "objective", "seed", "workers")
            if key in document
        ]
    else:
        parts += ["impose", name, "MAPPING", f"--objective {document.get('objective')}"]
    versions = document.get("versions") or {}
    facts = [
        ("program", f"{name}, sha256 {document.get('program_sha256')}"),
        ("tuning file", f"{path.name}, sha256 {sha256_of(path)}"),
        *((library, str(version)) for library, version in versions.items()),
    ]
    notes.append("The search is limited by time, so another machine may find other options.")
    return Subject(
        "tuning",
        str(function or name),
        mapped,
        objective,
        f"{' '.join(parts)} -o options.json --json {path.name}",
        facts,
        notes,
        tuning=view,
    )


def _run(run: RunDirectory, shown: list[str] | None) -> Subject:
    from ...env.program.program_file import read_program
    from ..status.status import run_status

    status = run_status(run.path)
    manifest, config = run.manifest(), read_json_file(run.config_file)
    entries = {entry["name"]: entry["sha256"] for entry in manifest["programs"]}
    unknown = [name for name in shown or () if name not in entries]
    if unknown:
        raise UserError(f"{run.path}: has no program {unknown[0]!r}; it has {', '.join(list(entries)[:20])}")
    mapped: list[tuple[Program, Mapping | None]] = []
    notes = []
    names = shown or [name for name in entries if _best_file(run, name).exists()][:_MOST_PROGRAMS] or list(entries)[:1]
    for name in names:
        program = read_program(run.program_file(name))
        best = _best_file(run, name)
        mapped.append((program, read_mapping(best, program) if best.exists() else None))
        if not best.exists():
            notes.append(f"The run has no mapping of {name} yet.")
    if len(names) < len(entries):
        notes.append(f"{len(names)} of {len(entries)} programs are shown; `--workload NAME ...` chooses others.")
    actor = config.get("actor")
    objective = actor.get("objective") if isinstance(actor, dict) else None
    code = manifest.get("code") or {}
    facts = [
        ("seed", str(manifest.get("seed"))),
        ("code", " ".join(str(part) for part in (code.get("version"), code.get("commit")) if part)),
        ("topology", str(status["topology"])),
        (
            "trained",
            f"{status['step']:,} updates, {status['moves']:,} moves, {status['minutes']:.1f} minutes; "
            f"{status['state']}",
        ),
        ("parameters", f"sha256 {status['parameters_sha256']}" if status["parameters_sha256"] else "no checkpoint yet"),
        *((f"program {name}", f"sha256 {entries[name]}") for name in names),
    ]
    if status["topology"] == "ray":
        notes.append("On Ray, actors and learner run at their own pace: a run repeats in kind, not bit for bit.")
    return Subject(
        "run",
        run.path.resolve().name,
        mapped,
        objective,
        f"mallocmuzero train --config {run.config_file} --run-dir NEW_DIR",
        facts,
        notes,
        charts(run.metrics_file, list(entries)),
        status["best"],
    )


def _best_file(run: RunDirectory, name: str) -> Path:
    return run.best / f"{name}.mapping.json.gz"
