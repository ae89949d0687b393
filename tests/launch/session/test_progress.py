"""The progress line: a few programs by name, of many their number and mean."""

from mallocmuzero.launch.session.progress import ProgramView, View


def _view(count: int) -> View:
    programs = [
        ProgramView(f"p{index}", 0, best_us=90.0, production_us=100.0, objective="msa") for index in range(count)
    ]
    return View(programs=programs)


def test_a_few_programs_are_named() -> None:
    line = _view(2).line()
    assert "p0 best 90.00 us, 90.00 % of production (msa)" in line
    assert "p1 best" in line
    assert "in all" not in line


def test_of_many_the_mean_is_told() -> None:
    view = _view(60)
    for program in view.programs[::2]:
        program.best_us = 40.0
    line = view.line()
    assert "p3 best" in line
    assert "p4 best" not in line
    assert "60 programs in all, mean 60.00 % of production" in line


def test_under_robust_the_ratio_stands_alone() -> None:
    view = _view(1)
    (program,) = view.programs
    program.objective, program.flags_us = "robust", 95.0
    assert "p0 best 90.00 % of production (robust; XLA's best flags 95.00 %)" in view.line()
    assert " us" not in view.line()
