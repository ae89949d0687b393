"""The Python front door: the functions that `mallocmuzero` offers, each with its result; commands call them too.

`load`, `capture`, `solve`, `verify`, `bound`, `tune`. Importing this folder loads nothing heavy: each function imports
what it needs when it is called.
"""
