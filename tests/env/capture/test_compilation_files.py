from pathlib import Path

from mallocmuzero.env.capture import worker
from mallocmuzero.env.capture.compilation_files import cut_down, name_module


def a_compilation(folder: Path) -> Path:
    """Returns the dump of a compilation that ended with memory assigned."""
    folder.mkdir()
    (folder / worker.LOG_FILE).write_text("I0000 1 a.cc:1] nothing\n", encoding="utf-8")
    dump = folder / ("module_0001.step" + worker.ASSIGNED)
    dump.write_text("HloModule step", encoding="utf-8")
    return dump


def test_the_module_that_is_read_has_its_name_where_all_files_are_kept(tmp_path: Path) -> None:
    dump = a_compilation(tmp_path / "kept")
    name_module(dump.parent)
    assert (dump.parent / worker.COMPILED_FILE).read_text(encoding="utf-8") == "HloModule step"
    assert dump.exists()


def test_a_folder_that_is_cut_down_has_it_alone(tmp_path: Path) -> None:
    dump = a_compilation(tmp_path / "cut")
    cut_down(dump.parent, dumps=False, costs=False)
    left = {path.name for path in dump.parent.iterdir()}
    assert left == {worker.COMPILED_FILE, worker.LOG_FILE}


def test_a_compilation_to_the_end_keeps_its_own_module(tmp_path: Path) -> None:
    dump = a_compilation(tmp_path / "whole")
    (dump.parent / worker.COMPILED_FILE).write_text("HloModule compiled", encoding="utf-8")
    name_module(dump.parent)
    assert (dump.parent / worker.COMPILED_FILE).read_text(encoding="utf-8") == "HloModule compiled"
