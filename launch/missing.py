"""The extra of the package that brings a library which is not installed."""

# By the module that is imported.
_EXTRAS = {
    **dict.fromkeys(("chex", "flax", "jax", "jaxlib", "mctx", "optax", "orbax", "tensorboardX"), "train"),
    **dict.fromkeys(("ray", "reverb", "tensorflow"), "cluster"),
    **dict.fromkeys(("dm_env", "gymnasium"), "gym"),
}


def advice(error: ModuleNotFoundError) -> str | None:
    """Returns the words for a library that an extra brings; None for any other module, whose absence is a fault."""
    library = (error.name or "").split(".")[0]
    extra = _EXTRAS.get(library)
    return None if extra is None else f"{library} is missing; `pip install 'mallocmuzero[{extra}]'` brings it"
