"""Opens a run: the programs of a new one, or configuration, programs and last checkpoint of one that is resumed."""

from collections.abc import Sequence
from pathlib import Path

from ...actors.self_play.config import RESIDENCY
from ...actors.self_play.resize import MARK, resize_fast_memory
from ...env import workloads
from ...env.errors import FormatError, UserError
from ...env.program.program import Program
from ..config.config import TrainConfig, config_from_json
from ..config.overrides import Overrides
from ..run.checkpoints import CONFIG, RunCheckpoints
from ..run.directory import RunDirectory
from ..run.json_file import read_json_file
from .snapshot import Resumed

# With more programs, each is checked when it is first played.
_FEW = 64
# Settings that may change on resuming: how long, how often, on which machines. All others are fixed for a run.
_MAY_CHANGE = ("minutes", "steps", "actors", "schedule.", "ray.")


def load_programs(config: TrainConfig) -> list[Program]:
    """Returns the programs of a new run, in the order of its workloads.

    Raises:
      UserError: a program cannot be read, lacks what the objective needs, or shares its name with another.
    """
    bases: dict[str, Program] = {}  # several shares of the memory of one program share its arrays
    programs = [_load_program(name, bases) for name in config.workloads]
    names = [program.name for program in programs]
    for name, program in zip(config.workloads, programs, strict=True):
        if names.count(program.name) > 1:
            raise UserError(f"{name}: a second program called {program.name!r}; give each its own name")
        if Path(program.name).name != program.name:
            raise UserError(
                f"{name}: the program's name {program.name!r} cannot be a file name; capture it under another"
            )
    if len(programs) <= _FEW:
        for program in programs:
            config.actor.judge(program)  # raises
    return programs


def check_playable(config: TrainConfig, programs: Sequence[Program]) -> None:
    """Raises UserError if a program leaves nothing to decide. Begins a game of each, in compiled code."""
    if config.actor.decisions == RESIDENCY and len(programs) > _FEW:
        return  # slots pass over those that leave nothing to decide
    for name, program in zip(config.workloads, programs, strict=True):
        if config.actor.game(program).done:
            raise UserError(f"{name}: leaves nothing to decide, so there is nothing to learn; choose another workload")


def _load_program(name: str, bases: dict[str, Program]) -> Program:
    """Returns a workload; `NAME@SHARE` has that share of its target's fast memory. `bases` keeps what was loaded."""
    base, mark, share = name.rpartition(MARK)
    if not mark or Path(name).exists():
        base, share = name, "1"
    try:
        value = float(share)
    except ValueError as error:
        raise UserError(f"{name}: {share!r} is no share of fast memory; give NAME{MARK}0.5, say") from error
    if base not in bases:
        bases[base] = workloads.load(base)
    return bases[base] if base == name else resize_fast_memory(bases[base], value)


def reopen(run: RunDirectory, overrides: Overrides) -> tuple[TrainConfig, list[Program], Resumed | None]:
    """Returns configuration, programs and last checkpoint of a run; no checkpoint if it was stopped before its first.

    Raises:
      UserError: there is no run, or a setting was given that is fixed for a run.
      FormatError: a file is damaged, or the checkpoint is of another configuration or of other programs.
    """
    base, manifest = run.open()
    config = overrides.resolve(base)
    fixed = {name: value for name, value in overrides.changed(base, config).items() if not name.startswith(_MAY_CHANGE)}
    # A given setting may change others, as the game does the sizes of the network: the given one is to blame.
    if fixed:
        name = min(fixed, key=lambda name: not overrides.has(name))
        raise UserError(
            f"{overrides.source(name)}: {name} is {fixed[name]!r}, but {run.name} was begun with another value; "
            "leave it out, or start a new run"
        )
    checkpoints = RunCheckpoints(run.checkpoints, config.schedule.checkpoints_kept)
    resumed = Resumed(*checkpoints.read()) if checkpoints.numbers() else None
    programs = run.programs(manifest)
    if resumed is not None:
        _check_same_run(run, base, programs, resumed)
    return config, programs, resumed


def _check_same_run(run: RunDirectory, config: TrainConfig, programs: list[Program], resumed: Resumed) -> None:
    """Raises FormatError if the checkpoint is of another configuration or of other programs than the run's files."""
    saved = config_from_json(read_json_file(resumed.folder / CONFIG), str(resumed.folder / CONFIG))
    for name, value in Overrides().changed(saved, config).items():
        if not name.startswith(_MAY_CHANGE):
            raise FormatError(
                f"{run.config_file}: {name} is {value!r}, but not in the last checkpoint: somebody has changed it; "
                f"`cp {resumed.folder / CONFIG} {run.config_file}` puts it back"
            )
    if {program.name: program.sha256 for program in programs} != resumed.manifest.get("programs"):
        raise FormatError(
            f"{run.manifest_file}: field `programs` names other programs than {resumed.folder}; restore the file"
        )
