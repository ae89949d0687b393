"""mallocGame: one program, one decision per buffer and instruction, dense rewards in seconds saved."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..physics.objective import make_judge
from ..program.mapping import COPY_FIELDS, RESIDENCY_FIELDS, WRITE_BACK, Mapping
from ..program.program import OPERAND, Program
from ..program.target import Target
from . import rules as core
from .observation import OBSERVATION_SIZE, observe
from .rules import COPY, DROP, NO_COPY, NUM_MOVES
from .state import (
    A_BUFFER,
    A_INSTRUCTION,
    A_KIND,
    B_PLAYED,
    B_TRIVIAL,
    C_ACCESS,
    C_COPIES,
    C_DECISIONS,
    C_EVICTIONS,
    C_NAMED,
    C_RESIDENCIES,
    C_STALLED,
    COPY_BUFFER,
    COPY_DIRECTION,
    COPY_END,
    COPY_START,
    F_REWARD,
    HINTS,
    IF_HBM_RUN,
    RESIDENCY_BUFFER,
    RESIDENCY_END,
    RESIDENCY_OFFSET,
    RESIDENCY_START,
    S_RESIDENT,
    State,
    Tables,
    build_tables,
    pooled_state,
)

__all__ = ["COPY", "DROP", "MOVE_NAMES", "NO_COPY", "NUM_MOVES", "MallocGame"]

MOVE_NAMES = ("NoCopy", "Copy", "Drop")
DEFAULT_MAX_WINDOW = 512
DEFAULT_TRIVIAL_SHARE = 1e-5
DEFAULT_MSA_SHARE = 0.5


class MallocGame:
    """A game in progress.

    A move decides one access: an operand stays in fast memory (`NO_COPY`), is prefetched (`COPY`) or is read from HBM
    (`DROP`); a result is produced in fast memory (`NO_COPY`), produced there and written back (`COPY`), or written to
    HBM (`DROP`). Accesses with one legal move, and those of trivial buffers, are played by the game. The rewards of a
    game sum to the seconds that its mapping saves against everything in HBM, as the simulator counts them.

    Attributes:
      program, target: what is played.
      judge: what its mapping is judged by (`objective.py`).
      all_hbm_s: seconds of everything in HBM, by the game's clock (`objective.Judge.clock`).
      legal: `[3]` bool, the legal moves; all False once the game is over.
      done: the game is over.
      actions: the moves made so far.
      state, block: the state, and the bytes in which it lies: one copy saves or restores it.
    """

    def __init__(
        self,
        program: Program,
        target: Target | None = None,
        objective: str | None = None,
        max_window: int = DEFAULT_MAX_WINDOW,
        trivial_share: float = DEFAULT_TRIVIAL_SHARE,
        msa_share: float = DEFAULT_MSA_SHARE,
        place_trivial: bool = True,
        window_slack: float = 1.0,
        patience: float = 1.0,
        hints: NDArray[np.int64] | None = None,
    ) -> None:
        """Begins a game.

        Args:
          program: the program to map.
          target: the hardware; None for the one the program was compiled for.
          objective: `robust`, `msa` or `cycles`; None for `robust` where `cycles` can price the program, else `msa`.
          max_window: longest copy window in instructions; it bounds the time of a move.
          trivial_share: the game itself plays buffers whose benefits sum to less than this share of the all-in-HBM
            latency: near if there is room without overwriting or waiting.
          msa_share: weight of the `msa` model in the clock of `robust`.
          window_slack: multiple of its need in idle time that a prefetch looks for, at least 1: more of it holds memory
            longer and waits less where the clock errs.
          patience: multiple of its benefits that a move may cost in waits and still be legal. Under `robust` a wait by
            the blended clock may be none by `cycles`.
          hints: `[A, 3]`, columns as `layout.HINTS`, what to prefer at each access where it may be had: an offset, a
            multiple of the alignment, or -1; the instruction right after which to issue its prefetch, and the one
            before which a write-back of what it leaves is to be complete, or `NEVER`. None for none.
          place_trivial: False leaves those buffers in HBM instead, which makes games twice as fast.

        Raises:
          UserError: the objective is not known, or needs a cycle table that the program lacks.
        """
        self.program = program
        self.target = program.target if target is None else target
        self.judge = make_judge(program, objective, self.target)
        clock = self.judge.clock(msa_share)
        self.tables: Tables = build_tables(
            program, self.target, clock, max_window, trivial_share, window_slack, patience
        )
        if hints is not None:
            self.tables.access[:, HINTS] = hints
        if not place_trivial:
            self.tables.buffer[self.tables.buffer[:, B_TRIVIAL] == 1, B_PLAYED] = 0
        self.block, self.state = pooled_state(self.tables)
        self.legal: NDArray[np.bool_] = np.zeros(NUM_MOVES, np.bool_)
        self.all_hbm_s = float(self.tables.instruction_f[:-1, IF_HBM_RUN] @ program.weight)
        self.reset()

    def reset(self) -> None:
        """Goes back to the beginning."""
        core.reset(self.tables, self.state)
        self.actions: list[int] = []
        self._mapping: Mapping | None = None
        self._latency_s: float | None = None
        self._rewarded_s = 0.0
        self.done = not core.advance(self.tables, self.state, self.legal)
        self._close()

    def take_over(self, actions: Iterable[int] = ()) -> None:
        """Takes note that compiled code has played `state` to the end of a game, by `actions`."""
        self.actions = [int(action) for action in actions]
        self._mapping = self._latency_s = None
        self._rewarded_s = 0.0
        self.done = True
        self._close()

    def go_to(self, actions: Iterable[int]) -> None:
        """Takes note that `state` is now one before a decision, which `actions` lead to."""
        self.actions = [int(action) for action in actions]
        self._mapping = self._latency_s = None
        self._rewarded_s = self.saved_s if self.actions else 0.0
        self.done = False
        core.legal_moves(self.tables, self.state, self.legal)

    def clone(self) -> "MallocGame":
        """Returns an independent copy of the game as it stands."""
        twin = object.__new__(MallocGame)
        vars(twin).update(vars(self))
        twin.block, twin.state = pooled_state(self.tables)
        twin.block[:] = self.block
        twin.legal = self.legal.copy()
        twin.actions = list(self.actions)
        return twin

    def allows(self, move: int, offset: int) -> bool:
        """Returns whether a move is legal that brings the buffer at hand to fast memory at this offset, in bytes."""
        if not 0 <= move < NUM_MOVES or not 0 <= offset < self.target.fast_bytes or offset % self.target.alignment:
            return False
        owner = self.tables.access[self.access, A_BUFFER]
        if move == core.DROP or self.state.buffer[owner, S_RESIDENT]:
            return False
        allowed = bool(self.plan(offset)[move])
        self.plan(None)
        return allowed

    def plan(self, offset: int | None) -> NDArray[np.bool_]:
        """Plans the move at hand anew: at `offset`, or at the game's own choice. Returns `[3]` what is legal then."""
        legal = np.zeros(NUM_MOVES, np.bool_)
        self.state.counters[C_NAMED] = -1 if offset is None else offset
        core.legal_moves(self.tables, self.state, legal)
        self.state.counters[C_NAMED] = -1
        return legal

    def step(self, move: int, offset: int | None = None) -> tuple[float, bool]:
        """Makes a move.

        Args:
          move: `NO_COPY`, `COPY` or `DROP`; legal.
          offset: where in fast memory, if the move places the buffer there and `allows` this one; None for the game's
            own choice.

        Returns:
          The reward, in weighted seconds saved since the previous decision, and whether the game is over. The last
          reward also holds what the simulator counts differently, so that rewards sum to `all_hbm_s - latency_s`; what
          the game played before the first decision is part of the first reward.

        Raises:
          ValueError: the move is not legal, or the game is over.
        """
        self._check(move)
        if offset is not None:
            if not self.allows(move, offset):
                raise ValueError(f"move {move} cannot be made at offset {offset} here")
            self.plan(offset)
        self._make(move)
        saved = self.all_hbm_s - self.latency_s if self.done else float(self.state.sums[F_REWARD])
        reward, self._rewarded_s = saved - self._rewarded_s, saved
        return reward, self.done

    def step_unpaid(self, move: int) -> bool:
        """Makes a move without working out its reward; returns whether the game is over.

        Raises:
          ValueError: the move is not legal, or the game is over.
        """
        self._check(move)
        self._make(move)
        return self.done

    def play(self, moves: Iterable[int]) -> None:
        """Plays `moves` from the beginning; the game may be unfinished after them.

        Raises:
          ValueError: a move is not legal.
        """
        self.reset()
        for move in moves:
            self.step(move)

    def observe(self, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Returns what a player sees, `[OBSERVATION_SIZE]` (`observation.py`); zeros once the game is over."""
        if out is None:
            out = np.zeros(OBSERVATION_SIZE, np.float32)
        if self.done:
            out[:] = 0.0
        else:
            observe(self.tables, self.state, self.legal, out)
        return out

    @property
    def access(self) -> int:
        """The access to decide next."""
        return int(self.state.counters[C_ACCESS])

    @property
    def instruction(self) -> int:
        """The instruction of the access to decide next; `T` once the game is over."""
        return self.program.num_instructions if self.done else int(self.tables.access[self.access, A_INSTRUCTION])

    @property
    def saved_s(self) -> float:
        """Weighted seconds saved so far, by the game's own account and clock."""
        return float(self.state.sums[F_REWARD])

    @property
    def decisions(self) -> int:
        """Decisions made so far; forced moves do not count."""
        return int(self.state.counters[C_DECISIONS])

    @property
    def evictions(self) -> int:
        """Residencies that were overwritten so far."""
        return int(self.state.counters[C_EVICTIONS])

    @property
    def stalled_copies(self) -> int:
        """Prefetches so far that their instruction waits for."""
        return int(self.state.counters[C_STALLED])

    @property
    def latency_s(self) -> float:
        """Simulated seconds of the finished game's mapping (steady), as the judge counts them."""
        if self._latency_s is None:
            self._latency_s = self.judge.judge(self.mapping())
        return self._latency_s

    def mapping(self, origin: dict[str, object] | None = None) -> Mapping:
        """Returns the mapping of the finished game.

        Raises:
          ValueError: the game is not over.
        """
        if self._mapping is None:
            if not self.done:
                raise ValueError("the game is not over: its mapping is not complete")
            self._mapping = _mapping(self.program, self.state, self.target.max_write_backs)
        if origin is None:
            return self._mapping
        mapping = self._mapping
        return Mapping(mapping.program_sha256, mapping.access_fast, mapping.residencies, mapping.copies, dict(origin))

    def describe(self) -> str:
        """Returns the decision at hand in words: the instruction, the access, the legal moves."""
        if self.done:
            return "the game is over"
        access = self.tables.access[self.access]
        kind = "operand" if access[A_KIND] == OPERAND else "result"
        moves = ", ".join(name for name, legal in zip(MOVE_NAMES, self.legal, strict=True) if legal)
        name = self.program.instruction_names[access[A_INSTRUCTION]]
        return f"{name}: {kind} {self.program.buffer_names[access[A_BUFFER]]} ({moves})"

    def _check(self, move: int) -> None:
        if self.done or not 0 <= move < NUM_MOVES or not self.legal[move]:
            raise ValueError(f"move {move} is not legal here; legal are {np.flatnonzero(self.legal).tolist()}")

    def _make(self, move: int) -> None:
        self.actions.append(int(move))
        self.done = not core.step(self.tables, self.state, move, self.legal)
        self._close()

    def _close(self) -> None:
        if self.done:
            self.legal[:] = False


def play_line(game: MallocGame, moves: Iterable[int]) -> list[int]:
    """Plays a whole game in one compiled call: `moves` where legal, else and beyond them the first of NoCopy, Drop,
    Copy.

    Returns:
      The moves made. `game` is over afterwards.

    Raises:
      UserError: a move is none of the three.
    """
    given = np.fromiter(moves, np.int64)
    if given.size and (given.min() < 0 or given.max() >= NUM_MOVES):
        raise UserError(f"a line of play holds a move outside 0..{NUM_MOVES - 1}")
    game.reset()
    taken = np.zeros(len(game.tables.access), np.int64)
    count = core.play_line(game.tables, game.state, given, game.legal, taken)
    game.take_over(taken[:count])
    return game.actions


def _mapping(program: Program, state: State, max_write_backs: int) -> Mapping:
    rows = state.residency[: state.counters[C_RESIDENCIES]]
    residencies = np.zeros((len(rows), len(RESIDENCY_FIELDS)), np.int64)
    residencies[:, 0] = rows[:, RESIDENCY_BUFFER]
    residencies[:, 1] = rows[:, RESIDENCY_START]
    residencies[:, 2] = rows[:, RESIDENCY_END]
    residencies[:, 3] = rows[:, RESIDENCY_OFFSET]
    residencies[:, 5] = program.size[rows[:, RESIDENCY_BUFFER]]
    residencies = residencies[np.lexsort((residencies[:, 0], residencies[:, 1]))]

    rows = state.copy[: state.counters[C_COPIES]]
    copies = np.zeros((len(rows), len(COPY_FIELDS)), np.int64)
    copies[:, 0] = rows[:, COPY_BUFFER]
    copies[:, 1] = rows[:, COPY_DIRECTION]
    copies[:, 2] = rows[:, COPY_START]
    copies[:, 3] = rows[:, COPY_END]
    copies[:, 5] = program.size[rows[:, COPY_BUFFER]]
    copies[:, 6] = rows[:, COPY_BUFFER]
    copies[:, 7] = -1
    copies = copies[np.argsort(copies[:, 2], kind="stable")]
    access_fast = state.access_fast.astype(bool)
    copies = copies[_is_needed(program, access_fast, copies)]
    _relax_write_backs(program, access_fast, residencies, copies, max_write_backs)
    return Mapping(program.sha256, access_fast, residencies, copies, {"solver": "game"})


def _is_needed(program: Program, access_fast: NDArray[np.bool_], copies: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns `[C]`, False for write-backs whose copy in HBM nothing reads: the buffer was never overwritten."""
    writes: dict[int, list[int]] = {}
    reads: dict[int, list[int]] = {}
    results = program.access_kind != OPERAND
    for rows, table in ((results, writes), (~results & ~access_fast, reads)):
        for buffer, t in zip(
            program.access_buffer[rows].tolist(), program.access_instruction[rows].tolist(), strict=True
        ):
            table.setdefault(buffer, []).append(t)
    end = program.num_instructions
    for buffer, direction, start, *_ in copies.tolist():
        if direction != WRITE_BACK:
            reads.setdefault(buffer, []).append(start)
    for buffer in np.flatnonzero(program.is_output).tolist():
        reads.setdefault(buffer, []).append(end)
    needed = np.ones(len(copies), bool)
    for row, (buffer, direction, start, *_) in enumerate(copies.tolist()):
        if direction == WRITE_BACK:
            rewritten = min((t for t in writes.get(buffer, ()) if t > start), default=end)
            needed[row] = any(start < t <= rewritten for t in reads.get(buffer, ()))
    return needed


def _relax_write_backs(
    program: Program,
    access_fast: NDArray[np.bool_],
    residencies: NDArray[np.int64],
    copies: NDArray[np.int64],
    most: int,
) -> None:
    """Moves the due instruction of each write-back as late as its readers, its residency and the limit in flight allow.

    The game counts a write-back as complete as soon as idle HBM time has covered it. When prefetches compete for that
    time it is later, and a due instruction with slack spares the wait.
    """
    write_backs = np.flatnonzero(copies[:, 1] == WRITE_BACK)
    if not write_backs.size or len(program.loop_trips):
        return
    # Instructions before which a buffer's copy in HBM, or its fast one, must be at rest.
    limits: dict[int, list[int]] = {}
    for buffer, _, start, *_ in copies[copies[:, 1] != WRITE_BACK].tolist():
        limits.setdefault(buffer, []).append(start)
    rests = ~access_fast | (program.access_kind != OPERAND)
    for buffer, t in zip(
        program.access_buffer[rests].tolist(), program.access_instruction[rests].tolist(), strict=True
    ):
        limits.setdefault(buffer, []).append(t)
    held: dict[int, list[tuple[int, int]]] = {}
    for buffer, start, end, *_ in residencies.tolist():
        held.setdefault(buffer, []).append((start, end))
    in_flight = np.zeros(program.num_instructions + 1, np.int64)
    for start, due in copies[write_backs][:, 2:4].tolist():
        in_flight[start + 1 : due] += 1
    for row in write_backs:
        buffer, _, start, due = copies[row, :4].tolist()
        latest = next(end for begin, end in held[buffer] if begin <= start <= end) + 1
        latest = min([latest, *(t for t in limits.get(buffer, ()) if t > start)])
        while due < latest and in_flight[due] < most:
            in_flight[due] += 1
            due += 1
        copies[row, 3] = due
