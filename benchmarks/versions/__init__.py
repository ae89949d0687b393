"""Versions of jax and libtpu: which are read, which options they take, and what they confirm."""
