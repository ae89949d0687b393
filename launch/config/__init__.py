"""Configuration dataclasses, and how they are read from TOML and the command line."""
