"""The version of the package; `setup.cfg` reads it from here."""

VERSION = "0.1.0"
