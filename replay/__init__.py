"""The memory of played games: actors write segments, the learner samples batches of them.

`segment` defines a segment, `interface` a replay and `config` its settings. `local` keeps the table in this process,
`reverb` in Reverb servers; TensorFlow and Reverb are imported only when a server is used.
"""
