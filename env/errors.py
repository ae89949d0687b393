"""Errors a user can mend: the command line prints their text on one line and exits with a non-zero status."""


class UserError(Exception):
    """Something the user gave cannot be used. The message names the file, the field and the mend."""


class FormatError(UserError):
    """A file is not what its reader expects."""
