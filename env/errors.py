"""Errors that a user can mend: the command line prints their text on one line and exits with a non-zero status."""


class UserError(Exception):
    """The user's input cannot be used. The message names the file and the field, and says how to mend it."""


class FormatError(UserError):
    """A file is of the wrong format, or its contents are inconsistent."""
