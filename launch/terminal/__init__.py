"""Consoles, signals, options and reports that several commands share."""
