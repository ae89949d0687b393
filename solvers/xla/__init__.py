"""XLA's memory space assignment (MSA), rebuilt from its source and logs: the solver `xla`, and a decoder for searches.

`decoder.py` is the entry point. It calls `build_problem.py` and `buffer_order.py` once per program, `assign.py`
(compiled) once per mapping, and `write.py` for the result. `assign.py` places a buffer by `segments.py` and
`prefetch.py`, on the heap of `heap.py` and the copies of `copy_resource.py`. Each file names the class or function of
XLA that it rebuilds.
"""
