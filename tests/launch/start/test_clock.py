"""Nothing is compiled on a clock: a run trains and an evaluation plays with what was compiled before."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from launch_cases import train_arguments

TRAIN = """
    import sys, time
    import jax.monitoring
    from mallocmuzero.env.compiled.kernel import KERNELS
    from mallocmuzero.env.compiled.prepare import kernels_of, watching
    from mallocmuzero.launch.cli import main
    from mallocmuzero.launch.run.directory import RunDirectory
    from mallocmuzero.launch.session.compiled import evaluation_kernels
    from mallocmuzero.launch.session.session import Session
    from mallocmuzero.launch.train import experiment
    from mallocmuzero.launch.start import needs

    clock, compiled = [], []

    def note(name):
        compiled.append((time.monotonic(), name))

    def start(self, start=Session.start):
        clock.append(time.monotonic())
        start(self)

    def finish(*arguments):
        clock.append(time.monotonic())

    def by_jax(name, seconds, **more):
        if "backend_compile" in name:
            note(f"{seconds:.2f} s by JAX")

    Session.start, experiment.finish = start, finish
    jax.monitoring.register_event_duration_secs_listener(by_jax)
    with watching(note):
        status = main(sys.argv[1:])
    assert status == 0 and len(clock) == 2
    late = [name for at, name in compiled if clock[0] < at < clock[1]]
    used = {kernel.py_func.__name__ for kernel in KERNELS if kernel.overloads}
    needed = {kernel.py_func.__name__ for kernel in kernels_of(needs.RESIDENCY)}
    assert any("JAX" in name for _, name in compiled)
    assert not late, late
    assert used == needed, used ^ needed

    # The evaluation needs no other kernels than are compiled for it.
    assert main(["evaluate", sys.argv[sys.argv.index("--run-dir") + 1], "--workload", "tiny"]) == 0
    config, _ = RunDirectory(sys.argv[sys.argv.index("--run-dir") + 1]).open()
    used = {kernel.py_func.__name__ for kernel in KERNELS if kernel.overloads}
    needed = {kernel.py_func.__name__ for kernel in kernels_of(evaluation_kernels(config))}
    assert used <= needed, used - needed
"""


def test_training_compiles_before_its_clock_runs(tmp_path: Path) -> None:
    arguments = train_arguments(
        tmp_path / "run", "--steps", "9", workload="tiny", schedule__evaluate_simulations=2, schedule__slice_moves=64
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TRAIN), *arguments], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])["step"] == 9


UNPREPARED = """
    import sys
    from mallocmuzero.env.compiled.kernel import KERNELS
    from mallocmuzero.env.compiled.prepare import kernels_of
    from mallocmuzero.launch.cli import main
    from mallocmuzero.launch.start import needs
    from mallocmuzero.launch.terminal.compiling import Compiling

    Compiling.kernels = lambda self, needed: None  # each kernel is compiled where it is first called
    assert main(sys.argv[1:]) == 0
    used = {kernel.py_func.__name__ for kernel in KERNELS if kernel.overloads}
    needed = {kernel.py_func.__name__ for kernel in kernels_of(needs.RESIDENCY)}
    assert used == needed, used ^ needed
"""


def test_training_compiles_nothing_for_nothing(tmp_path: Path) -> None:
    """On a program with a loop, whose copies are weighed."""
    arguments = train_arguments(tmp_path / "run", "--steps", "2", workload="lstm-b128-s64-v4")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(UNPREPARED), *arguments], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
