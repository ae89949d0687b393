"""mallocGame: one program, one decision per buffer and instruction, dense rewards in seconds saved."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..physics.objective import make_judge
from ..program.mapping import Mapping
from ..program.program import OPERAND, Program
from ..program.target import Target
from . import kernels
from .build_tables import build_tables
from .holding import check_per_pass
from .kernels import CompiledGame
from .moves import COPY, DROP, MOVE_NAMES, NO_COPY, NO_MOVE, NUM_MOVES
from .observation import OBSERVATION_SIZE
from .options import ANY_OFFSET, Options, new_options
from .outcome import make_scoring, mapping_of
from .state import pooled_state
from .tables import Tables

__all__ = ["COPY", "DROP", "MOVE_NAMES", "NO_COPY", "NUM_MOVES", "MallocGame"]

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
      program, target: the problem.
      judge: the objective (`physics.objective`).
      all_hbm_s: seconds with everything in HBM, by the game's clock (`Judge.clock`).
      legal: `[3]` bool, the legal moves; all False once the game is over.
      done: whether the game is over.
      actions: the moves made so far.
      tables, state, options, block: the game as compiled code sees it (`tables.py`, `state.py`, `options.py`); one copy
        of `block` saves or restores the state.
    """

    def __init__(
        self,
        program: Program,
        target: Target | None = None,
        objective: str | None = None,
        *,
        max_window: int = DEFAULT_MAX_WINDOW,
        trivial_share: float = DEFAULT_TRIVIAL_SHARE,
        msa_share: float = DEFAULT_MSA_SHARE,
        place_trivial: bool = True,
        window_slack: float = 1.0,
        patience: float = 1.0,
        hints: NDArray[np.int64] | None = None,
        per_pass: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Begins a game.

        Args:
          program: the program to map.
          target: the hardware; None for the one the program was compiled for.
          objective: `robust`, `msa` or `cycles`; None for `robust` where `cycles` can price the program, else `msa`.
          max_window: longest copy window in instructions; it bounds the time of a move.
          trivial_share: buffers whose benefits sum to less than this share of the all-in-HBM latency are trivial: the
            game plays them, in fast memory where that takes no eviction and no wait.
          msa_share: weight of the `msa` model in the clock of `robust`.
          place_trivial: False leaves trivial buffers in HBM, which makes games twice as fast.
          window_slack: idle time that a prefetch looks for, as a multiple of its need, at least 1. More slack holds
            memory longer, and waits less where the clock errs.
          patience: waits that a legal move may cost, as a multiple of its benefits. Under `robust`, a wait by the
            blended clock may be none by `cycles`.
          hints: `[A, 3]`, columns `records.HINTS`: the preferred offset of each access in bytes, or -1; the instruction
            right after which to issue its prefetch, and the one before which the write-back that follows it is
            complete, or `NEVER`. The game takes them where they are possible. None for no hints.
          per_pass: buffers that a loop does not hold over its passes, as pairs `(buffer, loop)` of
            `holding.releasable`: each pass reads them from HBM or fetches them for itself, and writes back what the
            next one reads.

        Raises:
          UserError: the objective is not known, or needs a cycle table that the program lacks; or `per_pass` has a pair
            that a loop may not leave to its passes.
        """
        self.program = program
        self.target = program.target if target is None else target
        self.judge = make_judge(program, objective, self.target)
        clock = self.judge.clock(msa_share)
        self.tables: Tables = build_tables(
            program,
            self.target,
            clock,
            max_window,
            trivial_share,
            window_slack,
            patience,
            check_per_pass(program, per_pass),
        )
        if hints is not None:
            self.tables.set_hints(hints)
        if not place_trivial:
            self.tables = self.tables.without_trivial()
        self.block, self.state = pooled_state(self.tables)
        self._set_options(new_options())
        self.all_hbm_s = float(self.tables.instruction["all_hbm_s"][:-1] @ program.weight)
        self.reset()

    def reset(self) -> None:
        """Returns to the beginning."""
        kernels.reset(self.tables, self.state)
        self._played_on = self.tables
        self.actions: list[int] = []
        self._mapping: Mapping | None = None
        self._latency_s: float | None = None
        self._rewarded_s = 0.0
        self._advance(NO_MOVE)

    def take_over(self, actions: Iterable[int] = (), tables: Tables | None = None) -> None:
        """Adopts `state`, which compiled code has played to the end of a game by `actions`, on other `tables` of the
        game's program and target if these are given."""
        self._played_on = self.tables if tables is None else tables
        self.actions = [int(action) for action in actions]
        self._mapping = self._latency_s = None
        self._rewarded_s = 0.0
        self._close(0)

    def go_to(self, actions: Iterable[int]) -> None:
        """Adopts `state`, which compiled code has brought before a decision by `actions`."""
        self._played_on = self.tables
        self.actions = [int(action) for action in actions]
        self._mapping = self._latency_s = None
        self._rewarded_s = self.saved_s if self.actions else 0.0
        self.done = False
        kernels.look(self.tables, self.state, self.options, ANY_OFFSET, False)

    def clone(self) -> "MallocGame":
        """Returns an independent copy of the game as it stands."""
        copy = object.__new__(MallocGame)
        vars(copy).update(vars(self))
        copy.block, copy.state = pooled_state(self.tables)
        copy.block[:] = self.block
        copy._set_options(self.options.copy())
        copy.actions = list(self.actions)
        return copy

    def allows(self, move: int, offset: int) -> bool:
        """Returns whether a move may place the buffer at hand at this offset, in bytes."""
        if not 0 <= move < NUM_MOVES or not 0 <= offset < self.target.fast_bytes or offset % self.target.alignment:
            return False
        owner = self.tables.access["buffer"][self.access]
        if move == DROP or self.state.buffer["resident"][owner]:
            return False
        options = new_options()
        kernels.look(self.tables, self.state, options, offset, False)
        return bool(options["legal"][move])

    def step(self, move: int, offset: int | None = None) -> tuple[float, bool]:
        """Makes a move.

        Args:
          move: `NO_COPY`, `COPY` or `DROP`; legal.
          offset: where the move places the buffer, in bytes, if `allows` permits it; None for the game's own choice.

        Returns:
          The reward, in weighted seconds saved since the previous decision, and whether the game is over. The first
          reward includes the moves that the game made before the first decision, the last one the difference to the
          simulator: rewards sum to `all_hbm_s - latency_s`.

        Raises:
          ValueError: the move is not legal, or the game is over.
        """
        self._check(move)
        if offset is not None:
            if not self.allows(move, offset):
                raise ValueError(f"move {move} cannot be made at offset {offset} here")
            kernels.look(self.tables, self.state, self.options, offset, False)
        self._make(move)
        saved = self.all_hbm_s - self.latency_s if self.done else float(self.state.now.reward)
        reward, self._rewarded_s = saved - self._rewarded_s, saved
        return reward, self.done

    def step_unpaid(self, move: int) -> bool:
        """Makes a move without computing its reward; returns whether the game is over.

        Raises:
          ValueError: the move is not legal, or the game is over.
        """
        self._check(move)
        self._make(move)
        return self.done

    def adopt(self, move: int, choices: int) -> None:
        """Adopts a legal move that compiled code has made in `state` (`kernels.advance`, which returned `choices`)."""
        self.actions.append(int(move))
        self._close(choices)

    def play(self, moves: Iterable[int]) -> None:
        """Plays `moves` from the beginning; the game may be unfinished after them.

        Raises:
          ValueError: a move is not legal.
        """
        self.reset()
        for move in moves:
            self.step(move)

    def observe(self, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Returns the observation, `[OBSERVATION_SIZE]` (`observation.py`); zeros once the game is over."""
        if out is None:
            out = np.zeros(OBSERVATION_SIZE, np.float32)
        if self.done:
            out[:] = 0.0
        else:
            kernels.observe(self.tables, self.state, self.options, out)
        return out

    @property
    def access(self) -> int:
        """The access to decide next."""
        return int(self.state.now.access)

    @property
    def instruction(self) -> int:
        """The instruction of the access to decide next; `T` once the game is over."""
        return self.program.num_instructions if self.done else int(self.tables.access["instruction"][self.access])

    @property
    def saved_s(self) -> float:
        """Weighted seconds saved so far, by the game's own account and clock."""
        return float(self.state.now.reward)

    @property
    def decisions(self) -> int:
        """Decisions made so far; forced moves do not count."""
        return int(self.state.now.decisions)

    @property
    def evictions(self) -> int:
        """Residencies that were evicted so far."""
        return int(self.state.now.evictions)

    @property
    def stalled_copies(self) -> int:
        """Prefetches so far that their instruction waits for."""
        return int(self.state.now.stalled)

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
            scoring = make_scoring(self.judge)
            kernels.list_copies(self._played_on, scoring, self.state)
            self._mapping = mapping_of(self.program, self.state, scoring)
        if origin is None:
            return self._mapping
        mapping = self._mapping
        return Mapping(mapping.program_sha256, mapping.access_fast, mapping.residencies, mapping.copies, dict(origin))

    def describe(self) -> str:
        """Returns the decision at hand in words: instruction, access, legal moves."""
        if self.done:
            return "the game is over"
        access = self.tables.access[self.access]
        kind = "operand" if access["kind"] == OPERAND else "result"
        moves = ", ".join(name for name, legal in zip(MOVE_NAMES, self.legal, strict=True) if legal)
        name = self.program.instruction_names[access["instruction"]]
        buffer = self.program.buffer_names[access["buffer"]]
        return f"{name}: {kind} {buffer} ({moves})"

    @property
    def compiled(self) -> CompiledGame:
        """The game as compiled players take it."""
        return CompiledGame(tables=self.tables, state=self.state, options=self.options, block=self.block)

    def _set_options(self, options: Options) -> None:
        self.options = options
        self.legal: NDArray[np.bool_] = options["legal"].view(np.bool_)

    def _check(self, move: int) -> None:
        if self.done or not 0 <= move < NUM_MOVES or not self.legal[move]:
            raise ValueError(f"move {move} is not legal here; legal are {np.flatnonzero(self.legal).tolist()}")

    def _advance(self, move: int) -> None:
        self._close(kernels.advance(self.tables, self.state, self.options, move))

    def _make(self, move: int) -> None:
        self.actions.append(int(move))
        self._advance(move)

    def _close(self, choices: int) -> None:
        if choices < 0:
            raise AssertionError(f"an access of {self.program.name!r} has no legal move: the invariants are broken")
        self.done = choices == 0
        if self.done:
            self.legal[:] = False


def play_line(game: MallocGame, moves: Iterable[int]) -> list[int]:
    """Plays a whole game in one compiled call: `moves` where legal, else the first legal move of NoCopy, Drop, Copy.

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
    count = kernels.play_moves(game.compiled, given, taken)
    game.take_over(taken[:count])
    return game.actions
