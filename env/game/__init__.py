"""mallocGame: rules, state, observation, and its Gymnasium and dm_env interfaces.

`game.py` is the front door for players, `rules.py` for the rules. The layout of the compiled state (`records.py`,
`tables.py`, `state.py`, `options.py`) is private to this room and the solvers' compiled loops.
"""
