"""The tables of needed kernels name what is run: nothing is compiled later, and nothing for nothing."""

import subprocess
import sys
import textwrap

import pytest

from mallocmuzero.launch.run.guided import LEARNED
from mallocmuzero.launch.start import needs
from mallocmuzero.solvers.solve import SOLVERS

USED = """
    from mallocmuzero.env.compiled.kernel import KERNELS
    from mallocmuzero.env.compiled.prepare import kernels_of
    from mallocmuzero.env.physics.objective import make_judge
    from mallocmuzero.env.workloads import load
    from mallocmuzero.launch.start import needs
    from mallocmuzero.env.physics.event_loop import weigh_copies
    from mallocmuzero.solvers.solve import SOLVERS, warm_up

    from mallocmuzero.launch.run.guided import learned_solvers
    solver = {{**SOLVERS, **learned_solvers()}}[{name!r}]
    make_judge(load("tiny"))
    warm_up(solver)  # compiles what it calls
    rarely = {{id(kernel) for kernel in kernels_of(needs.SEARCH_PACKING)}}
    rarely.add(id(weigh_copies))  # only programs with loops
    used = {{id(kernel): kernel.py_func.__name__ for kernel in KERNELS if kernel.overloads}}
    needed = {{id(kernel): kernel.py_func.__name__ for kernel in kernels_of(needs.SOLVERS[{name!r}])}}
    missing, superfluous = used.keys() - needed.keys(), needed.keys() - used.keys() - rarely
    print([used[key] for key in missing], [needed[key] for key in superfluous])
"""


@pytest.mark.parametrize("name", list(needs.SOLVERS))
def test_solvers_run_the_kernels_that_they_need(name: str) -> None:
    script = textwrap.dedent(USED).format(name=name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] []", "missing, superfluous"


def test_all_solvers_are_there() -> None:
    assert set(needs.SOLVERS) == {*SOLVERS, *LEARNED}
