"""The round trip: gives a mapping back to the real compiler as options, and reads what came true of it.

In order:

1. `translate` searches, with our own decoder of XLA's algorithm, for options that bring a mapping about; `options`
   writes them as the compiler reads them.
2. `candidates` are the sets of options worth a compilation.
3. `real_compiler` compiles a program again with options, from its `source`, and reads back the mapping and the cycles.
4. `confirm` has the real compiler judge the candidates, and keeps the best that it confirms.
5. `comparison` measures how much of the mapping, and of its gain, came true.

`tune` does all of it for a JAX function: captures it, maps it, and goes through 1 to 4.
"""
