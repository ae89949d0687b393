"""The error for a library that an extra of the package brings."""

from .errors import UserError


class MissingExtra(UserError, ImportError):
    """A library that an extra of the package brings is missing."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is missing; `pip install 'mallocmuzero[{extra}]'` brings it")
