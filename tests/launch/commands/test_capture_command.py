"""`mallocmuzero capture`: what each option does to the program file, with a recorded compiler."""

from dataclasses import replace
from pathlib import Path

from compiler_cases import recorded, requests
from launch_cases import call

from mallocmuzero.env.capture import worker
from mallocmuzero.env.program.compiler_flags import flag_grid
from mallocmuzero.env.program.program_file import read_module, read_program, write_program

# The real compiler, where it is to stop once memory is assigned, leaves the module as a dump alone.
AS_A_DUMP = f"""
if request["through"] == "assignment":
    (made / {worker.COMPILED_FILE!r}).rename(made / ("module_0001.step" + {worker.ASSIGNED!r}))
"""


def captured(tmp_path: Path, *options: str) -> Path:
    """Captures the recorded function by the command line; returns the program file."""
    output = tmp_path / "small.json.gz"
    python = recorded(tmp_path, AS_A_DUMP)
    arguments = ("capture", "models:my_step", "--target", "v5e", "--python", str(python), "-o", str(output), *options)
    status, text, errors = call(*arguments)
    assert (status, errors) == (0, "")
    assert f"{output}" in text.splitlines()[-1]
    return output


def test_a_program_has_the_name_and_the_family_that_it_is_given(tmp_path: Path) -> None:
    program = read_program(captured(tmp_path, "--name", "mine", "--family", "steps"))
    assert (program.name, program.family) == ("mine", "steps")


def test_the_grid_of_flags_is_read_also_where_all_files_are_kept(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    program = read_program(captured(tmp_path, "--variants", "--keep", str(keep)))
    assert [variant.options for variant in program.variants] == list(flag_grid().values())
    assert program.compiler["variants_left_out"] == []
    for name in ("default", *(name for name, options in flag_grid().items() if options)):
        assert (keep / name / worker.LOG_FILE).exists(), name


def test_a_quick_capture_ends_once_memory_is_assigned(tmp_path: Path) -> None:
    program = read_program(captured(tmp_path, "--quick"))
    assert program.production is not None
    assert program.cycles is None
    assert [request["through"] for request in requests(tmp_path)] == ["assignment", "lowering"]


def test_an_older_file_is_completed_in_place(tmp_path: Path) -> None:
    output = captured(tmp_path)
    whole = output.read_bytes()
    write_program(replace(read_program(output), keeps_layout=None), output, None)
    assert read_module(output) is None
    again = captured(tmp_path, "--complete")
    assert again.read_bytes() == whole
    assert captured(tmp_path, "--complete").read_bytes() == whole  # it lacks nothing
