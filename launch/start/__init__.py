"""The start of a command: what is compiled before its clock runs."""
