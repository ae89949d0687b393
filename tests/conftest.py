"""Makes the plain modules of this folder (`programs`) importable from every test: pytest puts it on the path."""
