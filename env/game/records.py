"""The records of a game, field by field: those of its tables (`tables.py`), which never change, and of its state.

Private to the game and the solvers' compiled loops. A field named `_s` is in seconds, one named `bytes` in bytes; flags
are 0 or 1.
"""

import numpy as np

NEVER = np.int64(2**62)  # an instruction index that is never reached


def _record(whole: str, real: str = "") -> np.dtype[np.void]:
    """Returns the record of whole numbers, then of real ones, named in one string each."""
    return np.dtype([(name, np.int64) for name in whole.split()] + [(name, np.float64) for name in real.split()])


# ---- The tables -----------------------------------------------------------------------------------------------------
# buffer       the buffer it reads or writes
# kind         OPERAND or RESULT
# instruction  its instruction
# next         the buffer's next access, or -1
# tied_to      an earlier access that decides this one, or -1: the first access in a loop that holds the buffer; for an
#              operand another operand of its instruction on the same buffer, or the access with which a collective took
#              hold of the buffer that it lets go; for a result the operand it overwrites
# key          what it changes of its instruction's key in the cycle table when it is fast, by XOR
# due          the instruction before which its prefetch must be complete: its own, or the first of the holding loop
# earliest     the earliest `start` of that prefetch that crosses no loop boundary
# until        the last instruction of the holding loop, or of the collective that reads or writes its buffer meanwhile,
#              or its own: a fast buffer is held until then
# alone        the same without collectives
# own          the same without the collective that `beside` names: with one that the access itself begins, for two may
#              read a buffer at once
# ends         the instruction with which its stay ends, since a loop that does not hold its buffer begins or ends there
#              before the next access, or NEVER (`holding.py`)
# beside       the access with which a running collective has taken hold of its buffer to read it, or -1
# carried      0, or of a loop that also writes the buffer: CARRIED; READ_LATER if its value is read after the loop;
#              WRITTEN_OUT if its value must reach HBM, for the program's end or for an access that is `in_hbm`
# in_hbm       it is served from HBM whatever the plan: its instruction always writes the buffer there, or one of the
#              accesses that `tied_to` ties together is of such an instruction
# needed       HBM must hold the value after it before the next result, since an access on the way reads it there, or
#              a stay ends
# hint         the offset to take where it is free, or -1
# since        the hinted `start` of its prefetch, or NEVER
# out          the hinted due instruction of the write-back that follows it, or NEVER
# bytes        bytes that it moves
# benefit      weighted seconds saved when it is fast (`tables._benefits`)
# ahead        the sum of the benefits from here to the buffer's last access
# saving_s     seconds saved by the completion of the cycle table
# once         executions of its prefetch per execution of its instruction: 1, or less if it runs before a loop
ACCESS = _record(
    "buffer kind instruction next tied_to beside key due earliest until alone own ends carried in_hbm needed hint "
    "since out",
    "bytes benefit ahead saving_s once",
)
HINTS = "hint", "since", "out"
CARRIED, READ_LATER, WRITTEN_OUT = 1, 2, 3

# The return of what a loop holds and only reads, per access:
# let_go     the last instruction at which a pass of the holding loop needs it before its next access there: from then
#            on its place may be taken; `until` where it may not
# back       the instruction before which it is fetched again, to the same place, if its place was taken: that of its
#            next access in the pass, or the one after the loop's last (before the body ends); -1 where it may not be
# back_from  the earliest `start` of that prefetch
# back_by    its latest `start`: what takes the place is gone by then
RETURN = _record("let_go back back_from back_by")

# An instruction, or the end of the program.
# first_access  its first access
# outer         the first instruction of the outermost loop around it, or itself
# drains        pending write-backs must be complete before it
# writes_back   a write-back may be issued right after it
# key           its key in the cycle table with nothing fast
# writes_out    it is the last of a loop after which carried buffers may be written back
# ends_loop     it is the last of a loop
# borders       a stay may end with it (`ends` of an access)
# compute_s     seconds of computing
# bytes         bytes moved
# weight        executions: the product of the trip counts around it
# clock_s       all-in-HBM seconds before it, loop trips counted once
# all_hbm_s     its own all-in-HBM seconds
# live          bytes of the buffers live at it, relative to fast memory
# cycles_s, least_s, most_s  the completion of the cycle table: seconds with nothing fast, least and most seen
# entered       waits per execution of the program for a copy due at it: `weight`, or the number of times that the loop
#               it begins is entered
INSTRUCTION = _record(
    "first_access outer drains writes_back key writes_out ends_loop borders",
    "compute_s bytes weight clock_s all_hbm_s live cycles_s least_s most_s entered",
)

# size, aligned        bytes; bytes rounded up to the alignment
# is_output, is_input  an output, an input of the program
# played               it may be placed in fast memory at all
# last, last_result    its last access, its last result; -1 for none
# trivial              its benefits are so small that the game plays it
# cross                a cross-program prefetch may bring it
BUFFER = _record("size aligned is_output played last is_input last_result trivial cross")

# fast_bytes, reserved     bytes of fast memory; bytes at offset 0 that instructions reserve
# prefetches, write_backs  copies in flight at most, per direction
# instructions             number of instructions
# window                   longest copy window in instructions
# refetch                  earliest `start` of a copy that is due when the program ends
LIMITS = _record("fast_bytes reserved prefetches write_backs instructions window refetch")

# hbm, fast    bandwidths, bytes per second
# mean_s       mean all-in-HBM seconds of an instruction
# msa, cycles  the clock: weights of the two cost models (`physics.objective.Clock`)
# slack        idle time that a prefetch looks for, as a multiple of its need
# patience     waits that a move may cost, as a multiple of its benefits
RATES = _record("", "hbm fast mean_s msa cycles slack patience")

# ---- The state ------------------------------------------------------------------------------------------------------
# Values of `State.access_fast`. FAST_AND_OUT: the first access in a loop that carries its buffer, which is written back
# after the loop.
IN_HBM, FAST, FAST_AND_OUT = range(3)

# resident    it is in fast memory
# offset      where
# start       since which instruction
# touched     the last access that was decided, or -1
# valid       the first instruction that may read a valid copy in HBM, or NEVER
# write_back  its pending write-back (a row of `State.copy`), or -1
# release     the last instruction that must still find it in fast memory if it is evicted now
# gone        the last instruction of its previous residency, or -1
# source      the earliest `start` of a prefetch of its value in HBM
# returns     a loop holds it, but its place may be taken: it is fetched again
HOLDING = _record("resident offset start touched valid write_back release gone source returns")

# A buffer in fast memory: its lower and upper end there; and whether its last access has been decided.
HOLDER = _record("buffer low high last")

# prefetches  prefetches in flight
# issued      earliest due instruction of the prefetches issued right before it (row 0: `start = -1`), or NEVER
# ended       head of the list of residencies that end with it, or -1
# key         its key in the cycle table, as decided so far
# fast_bytes  bytes served from fast memory, as decided so far
# idle_s      HBM seconds left idle, once the instruction is final
# wait_s      seconds that it waits for copies
# saving_s    sum of `saving_s` over the fast accesses
STEP = _record("prefetches issued ended key", "fast_bytes idle_s wait_s saving_s")

# Residencies and copies are in the order of their making; `next` is the next residency that ends with the same
# instruction, or -1. `again`: the prefetch brings back what a loop holds.
RESIDENCY = _record("buffer start end offset next")
COPY = _record("buffer direction start end again")

# A pending write-back: its row of `State.copy`, and the HBM seconds left of it.
PENDING = _record("copy", "seconds")

# Gaps that nothing has used since the program began, at most: of more the smallest are forgotten.
UNTOUCHED = 64

# access       the access to decide next
# final        instructions before this one are final
# holders      buffers in fast memory
# residencies  finished residencies
# copies       copies
# queue_head   the first pending write-back in the queue
# queue_tail   the end of the queue
# decisions    decisions made
# evictions    residencies that were overwritten
# stalled      prefetches that their instruction waits for
# ending       a resident may have no further use: one was touched last, or its write-back is complete
# cross        the buffer of the cross-program prefetch, or -1
# untouched    rows of `State.untouched`
# owed         rows of `State.owed`
# reward       weighted seconds saved by the moves so far
NOW = _record(
    "access final holders residencies copies queue_head queue_tail decisions evictions stalled ending cross untouched "
    "owed",
    "reward",
)
