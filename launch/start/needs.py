"""The kernels that each command and each solver runs, so that they are compiled before its clock starts.

Named as in `env/compiled/prepare.py`; those that take longest to compile come first and last, since two processes begin
at the two ends. A kernel that is missing here is compiled where it is first called, on the command's
clock; a superfluous one is compiled for nothing. `tests/launch/start/test_needs.py` runs the solvers and compares.
"""

PHYSICS = ("env.physics.event_loop",)
GAME = (*PHYSICS, "env.game.kernels:reset,look,make,judge,list_copies,advance")
# A whole game in one call.
PLAY = (*GAME, "env.game.kernels:play_moves")
# Packing where best fit fails, and where there are slices: not on every program.
SEARCH_PACKING = ("env.packing.exact", "env.packing.slices")
# Filling the memory that is free in the end.
FILL = ("solvers.common.fill", "env.packing.problem", "env.packing.best_fit", *SEARCH_PACKING)
BOUND = (*PHYSICS, *FILL)
# Plans, in training: it packs no mapping anew.
UNPACKED = ("solvers.common.fill", "env.game.plan:play_until", *GAME)
PLANS = (*FILL, *UNPACKED)
RULES = ("solvers.common.greedy_rules", "env.game.plan:plan_of_line")
# Stays chosen by knapsacks and prices.
STAYS = ("solvers.starts.knapsack", "solvers.starts.prices")
# Annealing over plans from the best of greedy rules.
WALK = ("solvers.common.walk", "env.game.current", *RULES, *PLANS)
# XLA's algorithm judges by the simulator; the game is only set up, for its tables.
DECODE = ("solvers.xla.assign", "solvers.xla.write_rows")
XLA = (*DECODE, *FILL, *PHYSICS, "env.game.kernels:reset,advance")
# The game that follows a mapping, with one choice put back at a time.
REPORT = ("env.game.plan:play_until", *GAME)
# The residency game.
CHANGES = (
    "env.residency.position",
    "env.residency.observation",
    "env.residency.seat",
    "env.game.current:begin_game",
    *STAYS,
    *UNPACKED,
)
# The policy proposes changes, and a walk goes on from there.
GUIDED = (*DECODE, "env.residency.observation", "env.residency.position:_climb", *STAYS, *WALK)
# Lines of play, the exact outcomes of their moves, and the reference players of a report.
TRAIN = (
    "actors.self_play.batch",
    "env.game.kernels:observe,play_moves",
    "env.game.plan:nearest",
    "solvers.common.line",
    "solvers.common.counterfactual:move_outcomes,outcome_ahead",
    *RULES,
    *UNPACKED,
)
RESIDENCY = (*CHANGES, "solvers.common.greedy_rules", "env.game.kernels:play_moves")
# What either game needs besides where it follows the best of XLA's mappings under other orders.
ORDERS = (*DECODE, "env.game.plan:nearest,plan_of_line", "solvers.common.line:_keep")
# What `TRAIN` needs besides where an actor anneals its lines.
ANNEAL_LINES = ("solvers.common.walk", "env.game.current")
EVALUATE = (*GAME, *RULES, "env.game.kernels:observe,play_moves")
DIAGNOSE = (*TRAIN, "env.game.plan:preference_for")

SOLVERS: dict[str, tuple[str, ...]] = {
    "anneal": (*DECODE, *STAYS, *WALK),
    "cem": (*PLANS, "solvers.cem"),
    "beam": (*DECODE, *STAYS, *PLANS, *RULES, "solvers.beam", "env.game.plan:preference_for"),
    "restarts": WALK,
    "milp": PLANS,
    "egrl": PLANS,
    "greedy": (*PLANS, *RULES, *STAYS),
    "random": PLANS,
    "xla": XLA,
    "flags": XLA,
    "order-search": XLA,
    "guided": GUIDED,
    "policy": ("env.residency.observation", "env.residency.position:_climb", "env.game.current", *STAYS, *PLANS),
}
