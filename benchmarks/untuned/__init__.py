"""Functions as people write them, on which nothing here was tuned, given back to the real compiler."""
