"""The problems that the policy is measured on: benchmark programs of a split, with a share of their fast memory, and
long programs made of them."""

from functools import lru_cache
from typing import NamedTuple

from mallocmuzero.actors.self_play.resize import leaves_memory, resize_fast_memory
from mallocmuzero.env import workloads
from mallocmuzero.env.physics.cost import CYCLES, MSA, available_models
from mallocmuzero.env.program.program import Program

from ..long_programs.repeated import repeated


class Problem(NamedTuple):
    """A problem: a program's name, its share of fast memory, the times that it is repeated, and the objective."""

    program: str
    share: float
    times: int
    objective: str

    @property
    def name(self) -> str:
        """The program's name with what was done to it."""
        share = "" if self.share == 1.0 else f"@{self.share:g}"
        return f"{self.program}{share}" + ("" if self.times == 1 else f" x{self.times}")

    @property
    def program_sha256(self) -> str:
        """The first digits of the committed program's hash: measurements of an earlier one do not count."""
        return workloads.workload(self.program).sha256[:12]

    @lru_cache(maxsize=2)  # noqa: B019 - problems are few, and live as long as the process
    def load(self) -> Program:
        """Returns the program; the last ones are kept, since several players play them in turn."""
        program = workloads.load(self.program)
        if self.share != 1.0:
            program = resize_fast_memory(program, self.share)
        return program if self.times == 1 else repeated(program, self.times)


def problems(split: str, shares: list[float], objectives: list[str]) -> list[Problem]:
    """Returns the problems of a split: objectives that have a cost model, and shares that leave fast memory."""
    programs = {name: workloads.load(name) for name in workloads.names_of(split)}
    return [
        Problem(name, share, 1, objective)
        for objective in objectives
        for share in shares
        for name, program in programs.items()
        if leaves_memory(program, share) and (objective == MSA or CYCLES in available_models(program))
    ]


def long_problems(split: str, accesses: int, objectives: list[str]) -> list[Problem]:
    """Returns the programs of a split, repeated to about so many accesses; those that are longer are left out."""
    found = []
    for objective in objectives:
        for name in workloads.names_of(split):
            times = round(accesses / workloads.load(name).num_accesses)
            if times > 1:
                found.append(Problem(name, 1.0, times, objective))
    return found
