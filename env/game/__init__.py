"""mallocGame: its rules, its state, and its Gymnasium and dm_env interfaces."""
