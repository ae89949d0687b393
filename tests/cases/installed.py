"""What is installed, by the names of distributions: `find_spec` takes a test's folder `reverb` for the package."""

import importlib.metadata


def installed(*distributions: str) -> bool:
    """Returns whether all of them are."""
    try:
        for name in distributions:
            importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


REVERB = installed("dm-reverb")
CLUSTER = REVERB and installed("ray")
