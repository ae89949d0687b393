"""Training steps of MaxText, as MaxText's own trainer gives them to the compiler: dumped, tuned, confirmed."""
