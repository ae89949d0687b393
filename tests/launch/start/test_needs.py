"""The tables of needed kernels name what is run: nothing is compiled later, and nothing for nothing."""

import json
import subprocess
import sys

import pytest

from mallocmuzero.launch.run.guided import LEARNED
from mallocmuzero.launch.start import needs
from mallocmuzero.solvers.solve import SOLVERS

# Each solver in a fork of one process, which has imported all of them and compiled nothing.
USED = """
import json, os, sys
from mallocmuzero.env.compiled.kernel import KERNELS
from mallocmuzero.env.compiled.prepare import kernels_of
from mallocmuzero.env.physics.event_loop import weigh_copies
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.run.guided import learned_solvers
from mallocmuzero.launch.start import needs
from mallocmuzero.solvers.solve import SOLVERS, warm_up

def compare(name):
    assert not any(kernel.overloads for kernel in KERNELS)
    make_judge(load("tiny"))
    warm_up({**SOLVERS, **learned_solvers()}[name])  # compiles what it calls
    rarely = {id(kernel) for kernel in kernels_of(needs.SEARCH_PACKING)}
    rarely.add(id(weigh_copies))  # only programs with loops
    used = {id(kernel): kernel.py_func.__name__ for kernel in KERNELS if kernel.overloads}
    needed = {id(kernel): kernel.py_func.__name__ for kernel in kernels_of(needs.SOLVERS[name])}
    missing, superfluous = used.keys() - needed.keys(), needed.keys() - used.keys() - rarely
    return [[used[key] for key in missing], [needed[key] for key in superfluous]]

for name in needs.SOLVERS:
    child = os.fork()
    if not child:
        print(json.dumps([name, compare(name)]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def compared() -> dict[str, list[list[str]]]:
    """What each solver ran without naming it, and what it named and did not run."""
    done = subprocess.run([sys.executable, "-c", USED], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert set(found) == set(needs.SOLVERS), done.stderr
    return found


@pytest.mark.parametrize("name", list(needs.SOLVERS))
def test_solvers_run_the_kernels_that_they_need(name: str, compared: dict[str, list[list[str]]]) -> None:
    missing, superfluous = compared[name]
    assert (missing, superfluous) == ([], [])


def test_all_solvers_are_there() -> None:
    assert set(needs.SOLVERS) == {*SOLVERS, *LEARNED}
