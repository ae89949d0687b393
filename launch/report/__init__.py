"""The report: one HTML page of a run, a mapping or a tuning."""
