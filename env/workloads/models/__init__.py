"""The models behind the benchmark programs, one file per family, and the generated ones of the corpus.

These files run in the capture environment (jax, flax, transformers, keras, ... with the versions of
`env/capture/packages.json`), where the rest of this package is not installed: they import only each other, relatively.
Every public function takes no argument and returns a function to compile and its abstract arguments, so that no weights
are made or fetched.
"""
