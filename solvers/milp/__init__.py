"""The mixed-integer relaxation of `env/bounds`, rounded to mappings."""
