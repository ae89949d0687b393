"""The solver `order-search`: a search over buffer orders, starts of prefetches and flags of XLA's algorithm.

An individual (`individual.py`) holds a key per buffer, the buffers that stay in HBM, an eagerness per access, and
flags. Two searches share the same moves:

- *evolve*: a population with biased crossover of random keys (biased random-key genetic algorithms; Goncalves and
  Resende, 2011): a child takes each buffer's key, ban and eagerness more often from its better parent;
- *climb*: annealing over single moves from the best individual.

During the search, prefetches are not cut into slices: decoding is then two to ten times as fast, and the individuals
are no worse. The best individual is decoded both ways.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ..common.budget import Budget
from ..common.task import Task
from .flags import Flags, neighbours
from .individual import Evaluator, Individual

# Share of the time for climbing, after the population.
_CLIMB_SHARE = 0.5
POPULATION = 16
_FROM_BETTER = 0.7  # of the genes of a child
_MUTATED = 0.6  # of the children: they also make a move
# Temperatures of the climb, relative to the latency.
_FIRST_TEMPERATURE, _LAST_TEMPERATURE = 1e-3, 1e-5
# Half of the picks are from this share of the buffers, those that move most bytes.
_TOP = 0.3
# Moves and their shares.
_MOVES = (
    ("swap", 0.2),
    ("first", 0.15),
    ("last", 0.1),
    ("noise", 0.15),
    ("ban", 0.15),
    ("eager", 0.2),
    ("flags", 0.05),
)
_NOISE, _MOST_NOISY = 0.1, 12
# This many times in a budget, the best individual is decoded with the buffers that the search leaves out.
_FINALS = 5


@dataclass(frozen=True, eq=False)
class Member:
    """An individual and its judged seconds."""

    seconds: float
    individual: Individual


def order_search(task: Task, climb_share: float = _CLIMB_SHARE) -> None:
    """Starts from XLA's own order under all flags and from the order by size, evolves, then climbs from the best.

    Args:
      task: the task.
      climb_share: share of the time after the starts that goes to climbing.
    """
    _search(task, climb_share, Evaluator(task))


def found_orders(task: Task, typical_bytes: int) -> list[Individual]:
    """Searches, and returns the best individual, without slices and with them; empty if there was time for none.

    Copies are timed as those of a typical size, `typical_bytes` (`xla/options.py`).
    """
    best = _search(task, _CLIMB_SHARE, Evaluator(task, typical_bytes)).best
    if best is None:
        return []
    individual = best.individual
    return [replace(individual, flags=replace(individual.flags, slices=slices)) for slices in (False, True)]


def _search(task: Task, climb_share: float, evaluator: Evaluator) -> "OrderSearch":
    search = OrderSearch(task, evaluator)
    try:
        population = search.starts()
        if not task.done and population and len(search.evaluator.major):
            search.evolve(population, task.spent + (1.0 - climb_share) * (1.0 - task.spent))
            search.climb(1.0)
            search.finish()
    finally:
        search.evaluator.settle()
    return search


@lru_cache(maxsize=256)
def ordered_mapping(program: Program, objective: str | None, orders: int) -> Mapping | None:
    """Returns the best of `orders` mappings of `order-search`, or None if it finds none.

    It is often better than production. Every process that asks gets the same mapping, which its games depend on.
    """
    task = Task(program, None, objective, Budget(None, orders), seed=0)
    order_search(task)
    return task.mapping()


class OrderSearch:
    """One search: its moves, and the best individual so far."""

    def __init__(self, task: Task, evaluator: Evaluator) -> None:
        self.task, self.evaluator = task, evaluator
        self.draw = task.generator
        self.best: Member | None = None
        self._finished: Member | None = None
        self._next_final = 1.0 / _FINALS

    def judge(self, individual: Individual) -> Member:
        """Evaluates an individual, and keeps it if it is the best."""
        member = Member(self.evaluator.seconds(individual), individual)
        if self.best is None or member.seconds < self.best.seconds:
            self.best = member
        if self.task.spent >= self._next_final:
            self.finish()
            self._next_final = self.task.spent + 1.0 / _FINALS
        return member

    def finish(self) -> None:
        """Decodes the best individual with all buffers, without and with slices, and offers both."""
        if self.best is not None and self.best is not self._finished:
            self._finished = self.best
            individual = self.best.individual
            for slices in (False, True):
                flags = replace(individual.flags, slices=slices)
                self.evaluator.seconds(replace(individual, flags=flags), minor=True)

    def starts(self) -> list[Member]:
        """Evaluates XLA's own individual under each setting of the grid, and returns the members to start from.

        Those are the same individuals without slices, and the order by size under the best setting.
        """
        self.task.doing = "flags"
        for flags in grid_settings(slices=True):
            if self.task.done and self.task.evaluations:
                return []
            self.evaluator.seconds(self.evaluator.start(flags), minor=True)
        found: list[Member] = []
        for flags in grid_settings(slices=False):
            if self.task.done:
                return found
            found.append(self.judge(self.evaluator.start(flags)))
        best = min(found, key=lambda member: member.seconds).individual
        if not self.task.done:
            found.append(self.judge(replace(best, keys=self.evaluator.size_keys())))
        return found

    # ---- moves -------------------------------------------------------------------------------------------------------

    def pick(self) -> int:
        """Returns a random buffer worth placing; those that move most bytes are more likely."""
        major = self.evaluator.major
        top = max(1, int(_TOP * len(major)))
        return int(major[self.draw.integers(top if self.draw.random() < 0.5 else len(major))])

    def moved(self, individual: Individual) -> Individual:
        """Returns an individual changed by one random move."""
        names, shares = zip(*_MOVES, strict=True)
        move = str(self.draw.choice(names, p=np.array(shares) / sum(shares)))
        if move == "flags":
            others = self._others(individual.flags)
            return replace(individual, flags=others[int(self.draw.integers(len(others)))])
        if move == "eager":
            return self._eager(individual)
        if move == "ban":
            banned = individual.banned.copy()
            buffer = self.pick()
            banned[buffer] = not banned[buffer]
            return replace(individual, banned=banned)
        keys = individual.keys.copy()
        major = self.evaluator.major
        buffer = self.pick()
        if move == "swap":
            other = self.pick()
            keys[[buffer, other]] = keys[[other, buffer]]
        elif move == "first":
            keys[buffer] = keys[major].min() - 1e-3
        elif move == "last":
            keys[buffer] = keys[major].max() + 1e-3
        else:
            chosen = major[: max(1, int(_TOP * len(major)))]
            chosen = self.draw.choice(chosen, min(len(chosen), int(self.draw.integers(1, _MOST_NOISY + 1))), False)
            keys[chosen] += _NOISE * self.draw.standard_normal(len(chosen))
        return replace(individual, keys=keys)

    def _eager(self, individual: Individual) -> Individual:
        uses = self.evaluator.uses[self.pick()]
        if not len(uses):
            return individual
        eagerness = individual.eagerness.copy()
        access = int(uses[self.draw.integers(len(uses))])
        eagerness[access] = -1.0 if eagerness[access] >= 0.0 and self.draw.random() < 0.5 else self.draw.random()
        return replace(individual, eagerness=eagerness)

    def _others(self, flags: Flags) -> list[Flags]:
        """Returns the flags with another value of one of them; slices stay as they are."""
        judge = self.task.game.judge
        return [other for other in neighbours(flags, judge.program, judge.target) if other.slices == flags.slices]

    def crossed(self, better: Individual, worse: Individual) -> Individual:
        """Returns a child that takes each buffer from one parent, more often from the better one."""
        from_better = self.draw.random(len(better.keys)) < _FROM_BETTER
        access = from_better[self.task.game.program.access_buffer]
        return Individual(
            np.where(from_better, better.keys, worse.keys),
            np.where(from_better, better.banned, worse.banned),
            np.where(access, better.eagerness, worse.eagerness),
            better.flags if self.draw.random() < _FROM_BETTER else worse.flags,
        )

    # ---- searches ----------------------------------------------------------------------------------------------------

    def evolve(self, found: list[Member], until: float) -> None:
        """Evolves a population, one child at a time, until a share of the budget is spent."""
        population = sorted(found, key=lambda member: member.seconds)[:POPULATION]
        first = population[0].individual
        generation = 0
        while not self.task.done and self.task.spent < until:
            generation += 1
            self.task.doing = f"population, child {generation}"
            if len(population) < POPULATION:
                child = first
                for _ in range(int(self.draw.integers(1, 9))):
                    child = self.moved(child)
            else:
                a, b = sorted(self.draw.choice(len(population), 2, False).tolist())
                child = self.crossed(population[a].individual, population[b].individual)
                if self.draw.random() < _MUTATED:
                    child = self.moved(child)
            member = self.judge(child)
            if all(member.seconds != known.seconds for known in population):
                population.append(member)
                population.sort(key=lambda known: known.seconds)
                del population[POPULATION:]

    def climb(self, until: float) -> None:
        """Anneals over single moves from the best individual until a share of the budget is spent."""
        if self.best is None:
            return
        current, begin = self.best, self.task.spent
        while not self.task.done and self.task.spent < until:
            passed = (self.task.spent - begin) / max(until - begin, 1e-9)
            temperature = _FIRST_TEMPERATURE * (_LAST_TEMPERATURE / _FIRST_TEMPERATURE) ** passed * current.seconds
            self.task.doing = f"climb, temperature {temperature * 1e6:.3g} us"
            child = current.individual
            for _ in range(1 if self.draw.random() < 0.6 else 2):
                child = self.moved(child)
            member = self.judge(child)
            worse = member.seconds - current.seconds
            if worse <= 0.0 or self.draw.random() < np.exp(-worse / temperature):
                current = member


def grid_settings(slices: bool) -> Iterator[Flags]:
    """Yields the settings of the flag grid, the default first."""
    for bandwidth, loop_optimiser, cross_program in itertools.product((1.0, 0.5), (True, False), (True, False)):
        yield Flags(bandwidth, loop_optimiser, cross_program, slices)
