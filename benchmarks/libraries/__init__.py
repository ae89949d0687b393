"""Programs of the libraries that people use, given back to the real compiler."""
