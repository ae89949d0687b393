"""The models behind the benchmark programs, one file per family.

These files run in the capture environment (jax, flax, transformers, keras, ... pinned in `manifest.json`), where the
rest of this package is not installed: they import nothing but each other, relatively. Every public function takes no
argument and returns what to compile and its abstract arguments: no weights are made or fetched.
"""
