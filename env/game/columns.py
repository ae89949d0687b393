"""Columns of the arrays that compiled games work on (`tables.py`, `state.py`), each with its meaning.

The prefix of a column names its array. Private to the game and the solvers' compiled loops.
"""

import numpy as np

NEVER = np.int64(2**62)  # an instruction index that is never reached

# ---- Tables.access, per access --------------------------------------------------------------------------------------
# A_BUFFER       the buffer it reads or writes
# A_KIND         OPERAND or RESULT
# A_INSTRUCTION  its instruction
# A_NEXT         the buffer's next access, or -1
# A_TIED_TO      an earlier access that decides this one, or -1: the first access in a loop that holds the buffer; for
#                an operand another operand of its instruction on the same buffer; for a result the operand that it
#                overwrites
# A_KEY          what it changes of its instruction's key in the cycle table when it is fast, by XOR
# A_DUE          the instruction before which its prefetch must be complete: its own, or the first of the holding loop
# A_EARLIEST     the earliest `start` of that prefetch that crosses no loop boundary
# A_UNTIL        the last instruction of the holding loop, or its own: a fast buffer is held until then
# A_CARRIED      0, or of a loop that also writes the buffer: CARRIED; READ_LATER if its value is read after the loop;
#                WRITTEN_OUT if its value must reach HBM
# A_HINT         the offset to take where it is free, or -1
# A_SINCE        the hinted `start` of its prefetch, or NEVER
# A_OUT          the hinted due instruction of the write-back that follows it, or NEVER
A_BUFFER, A_KIND, A_INSTRUCTION, A_NEXT, A_TIED_TO, A_KEY, A_DUE, A_EARLIEST, A_UNTIL, A_CARRIED = range(10)
HINTS = A_HINT, A_SINCE, A_OUT = 10, 11, 12
CARRIED, READ_LATER, WRITTEN_OUT = 1, 2, 3

# ---- Tables.access_f, per access ------------------------------------------------------------------------------------
# AF_BYTES    bytes that it moves
# AF_BENEFIT  weighted seconds saved when it is fast (`tables._benefits`)
# AF_AHEAD    the sum of the benefits from here to the buffer's last access
# AF_SAVING   seconds saved by the completion of the cycle table
# AF_ONCE     executions of its prefetch per execution of its instruction: 1, or less if it runs before a loop
AF_BYTES, AF_BENEFIT, AF_AHEAD, AF_SAVING, AF_ONCE = range(5)

# ---- Tables.instruction, per instruction and for the end of the program ----------------------------------------------
# I_FIRST_ACCESS  its first access
# I_OUTER         the first instruction of the outermost loop around it, or itself
# I_DRAIN         1 if pending write-backs must be complete before it
# I_WRITES_BACK   1 if a write-back may be issued right after it
# I_KEY           its key in the cycle table with nothing fast
# I_WRITES_OUT    1 if it is the last of a loop after which carried buffers may be written back
I_FIRST_ACCESS, I_OUTER, I_DRAIN, I_WRITES_BACK, I_KEY, I_WRITES_OUT = range(6)

# ---- Tables.instruction_f, per instruction and for the end of the program --------------------------------------------
# IF_COMPUTE, IF_BYTES       seconds of computing; bytes moved
# IF_WEIGHT                  executions: the product of the trip counts around it
# IF_CLOCK                   all-in-HBM seconds before it, loop trips counted once
# IF_HBM_RUN                 its own all-in-HBM seconds
# IF_LIVE                    bytes of the buffers live at it, relative to fast memory
# IF_CYCLES, IF_LEAST, IF_MOST  the completion of the cycle table: seconds with nothing fast, least and most seen
# IF_ENTERED                 waits per execution of the program for a copy due at it: IF_WEIGHT, or the number of times
#                            that the loop it begins is entered
IF_COMPUTE, IF_BYTES, IF_WEIGHT, IF_CLOCK, IF_HBM_RUN, IF_LIVE, IF_CYCLES, IF_LEAST, IF_MOST, IF_ENTERED = range(10)

# ---- Tables.buffer ---------------------------------------------------------------------------------------------------
# B_SIZE, B_ALIGNED      bytes; bytes rounded up to the alignment
# B_OUTPUT, B_INPUT      1 for an output, an input of the program
# B_PLAYED               1 if it may be placed in fast memory at all
# B_LAST, B_LAST_RESULT  its last access, its last result; -1 for none
# B_TRIVIAL              1 if its benefits are so small that the game plays it
# B_CROSS                1 if a cross-program prefetch may bring it
B_SIZE, B_ALIGNED, B_OUTPUT, B_PLAYED, B_LAST, B_INPUT, B_LAST_RESULT, B_TRIVIAL, B_CROSS = range(9)

# ---- Tables.limits ---------------------------------------------------------------------------------------------------
# L_FAST, L_RESERVED           bytes of fast memory; bytes at offset 0 that instructions reserve
# L_PREFETCHES, L_WRITE_BACKS  copies in flight at most, per direction
# L_INSTRUCTIONS               number of instructions
# L_WINDOW                     longest copy window in instructions
# L_REFETCH                    earliest `start` of a copy that is due when the program ends
L_FAST, L_RESERVED, L_PREFETCHES, L_WRITE_BACKS, L_INSTRUCTIONS, L_WINDOW, L_REFETCH = range(7)

# ---- Tables.rates ----------------------------------------------------------------------------------------------------
# R_HBM, R_FAST    bandwidths, bytes per second
# R_MEAN           mean all-in-HBM seconds of an instruction
# R_MSA, R_CYCLES  the clock: weights of the two cost models (`physics.objective.Clock`)
# R_SLACK          multiple of its need in idle time that a prefetch looks for
# R_PATIENCE       multiple of its benefits that a move may cost in waits
R_HBM, R_FAST, R_MEAN, R_MSA, R_CYCLES, R_SLACK, R_PATIENCE = range(7)

# ---- State.access_fast -----------------------------------------------------------------------------------------------
# FAST_AND_OUT: the first access in a loop that carries its buffer, which is written back after the loop
IN_HBM, FAST, FAST_AND_OUT = range(3)

# ---- State.buffer ----------------------------------------------------------------------------------------------------
# S_RESIDENT, S_OFFSET, S_START  1 if it is in fast memory; where; since which instruction
# S_TOUCH                        the last access that was decided, or -1
# S_VALID                        the first instruction that may read a valid copy in HBM, or NEVER
# S_WRITE_BACK                   its pending write-back (a row of State.copy), or -1
# S_RELEASE                      the last instruction that must still find it in fast memory if it is evicted now
# S_GONE                         the last instruction of its previous residency, or -1
# S_SOURCE                       the earliest `start` of a prefetch of its value in HBM
S_RESIDENT, S_OFFSET, S_START, S_TOUCH, S_VALID, S_WRITE_BACK, S_RELEASE, S_GONE, S_SOURCE = range(9)

# ---- State.step_f, per instruction -----------------------------------------------------------------------------------
# D_FAST    bytes served from fast memory, as decided so far
# D_FREE    HBM seconds left idle, once the instruction is final
# D_WAIT    seconds that it waits for copies
# D_SAVING  sum of AF_SAVING over the fast accesses
D_FAST, D_FREE, D_WAIT, D_SAVING = range(4)

# ---- State.step, per instruction -------------------------------------------------------------------------------------
# D_PREFETCHES  prefetches in flight
# D_ISSUED      earliest due instruction of the prefetches issued right before it (row 0: `start = -1`), or NEVER
# D_ENDED       head of the list of residencies that end with it, or -1
# D_KEY         its key in the cycle table, as decided so far
D_PREFETCHES, D_ISSUED, D_ENDED, D_KEY = range(4)

# ---- State.residency and State.copy, in the order of their making ----------------------------------------------------
# RESIDENCY_NEXT: the next residency that ends with the same instruction, or -1
RESIDENCY_BUFFER, RESIDENCY_START, RESIDENCY_END, RESIDENCY_OFFSET, RESIDENCY_NEXT = range(5)
COPY_BUFFER, COPY_DIRECTION, COPY_START, COPY_END = range(4)

# ---- State.counters --------------------------------------------------------------------------------------------------
(
    C_ACCESS,  # the access to decide next
    C_FINAL,  # instructions before this one are final
    C_HOLDERS,  # buffers in fast memory
    C_RESIDENCIES,  # finished residencies
    C_COPIES,  # copies
    C_QUEUE_HEAD,  # the first pending write-back in the queue
    C_QUEUE_TAIL,  # the end of the queue
    C_DECISIONS,  # decisions made
    C_EVICTIONS,  # residencies that were overwritten
    C_STALLED,  # prefetches that their instruction waits for
    C_ENDING,  # 1 if a resident may have no further use: one was touched last, or its write-back is complete
    C_CROSS,  # the buffer of the cross-program prefetch, or -1
    C_UNTOUCHED,  # rows of State.untouched
    NUM_COUNTERS,
) = range(14)

# ---- State.sums ------------------------------------------------------------------------------------------------------
F_REWARD = 0  # weighted seconds saved by the moves so far
NUM_SUMS = 1

# Gaps that nothing has used since the program began: rows of State.untouched. Of more the smallest are forgotten.
UNTOUCHED = 64
