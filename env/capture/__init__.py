"""Captures real programs: compiles a JAX function for a TPU, without one, and reads back what the compiler did.

The pipeline, in order:

1. Run the compiler. `environment` makes an interpreter with jax and libtpu. `compiler` runs `worker` in it, which
   compiles on request. `compilation_files` names the files of a compilation that are read; `compilations` makes
   compilations, or takes them from an archive.
2. Read the text. `hlo` parses scheduled modules, and `buffer_sizes` a dumped buffer assignment. `log` and `allocation`
   parse the log of memory space assignment (MSA), the pass of XLA that makes the mapping.
3. Extract the program. `coloring_hints` removes the compiler's color notes, `loops` flattens the schedule,
   `collectives` and `carried_copies` find what runs beside other instructions. `values` finds the definition of every
   operand, `alias` the values that share memory, and `extract` builds the `Program` of instructions, accesses and
   buffers.
4. Read back production. `production` turns MSA's allocations into a `Mapping`; `cycle_pairs` collects the code
   generator's cycles.
5. Assemble and write. `assemble` joins 2 to 4; `printed_estimate` checks the program against the compiler's own
   estimates; `variants` adds compilations under other flags, `capture` runs all of it and writes the program file.
   `complete` adds what files of earlier captures lack.
"""
