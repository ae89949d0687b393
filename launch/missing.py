"""Names the package extra that installs a missing library."""

# By imported module.
_EXTRAS = {
    **dict.fromkeys(("chex", "flax", "jax", "jaxlib", "mctx", "optax", "orbax", "tensorboardX"), "train"),
    **dict.fromkeys(("ray", "reverb", "tensorflow"), "cluster"),
    **dict.fromkeys(("dm_env", "gymnasium"), "gym"),
}


def advice(error: ModuleNotFoundError) -> str | None:
    """Returns advice on a library that an extra installs; None for any other module, whose absence is a bug."""
    library = (error.name or "").split(".")[0]
    extra = _EXTRAS.get(library)
    return None if extra is None else f"{library} is missing; `pip install 'mallocmuzero[{extra}]'` brings it"
