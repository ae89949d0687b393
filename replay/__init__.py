"""What was played, remembered: one interface, an in-process replay and a Reverb server behind it.

`segment` defines what a segment is, `interface` what a replay does; `local` and `client` + `server` are the two that do
it. TensorFlow and Reverb are imported only when the second one is used.
"""
