"""Functions as people write them, none of which anything here was tuned on, given back to the real compiler."""
