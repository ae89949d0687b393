"""Facts of the compiler's module that a program file does not hold: typical size, slices, results fit for fast memory.

They come from the compiler's log or from the mappings in the program file; where neither says, they are guessed.
"""

from collections import defaultdict
from functools import lru_cache

import numpy as np

from ...env.program.mapping import CROSS_PROGRAM, PREFETCH
from ...env.program.program import Program
from .options import KEPT, Options

# Typical sizes in bytes, as the compiler logs them, by the first digits of `Program.sha256`. XLA picks the starts of
# all copies in a program by the seconds that a buffer of one typical size takes, not the buffer at hand
# (`CostAnalysisPrefetchIntervalPicker`, `size_override`). It computes that size from the module, the inside of fusions
# included.
LOGGED: dict[str, int] = {
    "99cb87e67aa1": 25165824,  # tiny
    "84bfa46a886f": 51380224,  # resnet50-b128
    "9ae2f9714987": 12845056,  # resnet50-b32-v4
    "71e935223725": 6422528,  # resnet101-b32-v5p
    "d84c12ed877b": 12845056,  # resnet18-train-b64
    "f91166d76ab5": 2097152,  # unet-b2
    "443a7fc18aac": 2097152,  # unet-train-b2
    "b38aa12be5db": 3145728,  # bert-train-b8
    "17f8db98bfaa": 37748736,  # bert-b32-s384
    "ca3eb84ff330": 6291456,  # gpt2-b4-s512
    "cb4941bef805": 5767168,  # llama-prefill-b2-s1024
    "880c1af0891f": 5767168,  # llama-decode-b16
    "881713e18f8d": 5767168,  # llama-decode-b4-s2048-v5p
    "9d091ab222da": 4194304,  # llama-train-b2-s512-v5p
    "454e5297b40a": 19660800,  # vit-b32
    "4cfbab6c2a48": 4915200,  # vit-b8-v6e
    "4ad5f50183b6": 39321600,  # mixer-b64
    "71d6f9705f0a": 39321600,  # mixer-b64-v4
    "ee4486352c43": 9830400,  # mixer-train-b16-v6e
    "336b7d759bb8": 2097152,  # t5-small-train-b8
    "fe62f6b73e33": 9240576,  # whisper-tiny-train-b4
    "b2bdf19db2e0": 12582912,  # whisper-base-b8-v5p
    "2a195a258834": 5120000,  # dlrm-b2048
    "515c7ae1a230": 4194304,  # dlrm-train-b2048
    "139d4bb3d853": 5120000,  # dlrm-train-b8192-v4
    "758fb7585135": 4194304,  # switch-train-b4-s512
    "3c6cd9f2ec39": 8388608,  # gshard-b8-s512-v6e
    "8cfa9fccc539": 51380224,  # mobilenet-v1-b128
    "a73e8701422c": 12845056,  # mobilenet-v2-b64-v6e
    "2ab7ca9b39da": 11010048,  # efficientnet-b0-b32
    "df7f879c575b": 8388608,  # lstm-train-b64-s32
    "2b14b007a292": 16777216,  # lstm-b128-s64-v4
    "7c8c703a77d7": 8388608,  # graph-network-train
    "45e36974c2cb": 16777216,  # graph-network-v5p
    "3500f71dcdaa": 67108864,  # alphatensor-b64-v6e
    "d71e3efb2b29": 16777216,  # strassen-8192
    "7db1d65bdad4": 4194304,  # strassen-4096-v4
    "ed6197864f5d": 23887872,  # alexnet-b256-v4
    "ff45ddb2604c": 16613376,  # alexnet-train-b128
    "71a7cfb7b538": 38535168,  # convnext-tiny-b32
    "6393945f7dd1": 12845056,  # vgg16-train-b16
    "557c77863387": 2621440,  # clip-train-b16
    "f4a78b3db0ec": 3145728,  # bart-train-b8-v4
    "0cf742c97f44": 5519360,  # regnet-y004-train-b32
}
_TILE = 4096  # bytes; slices end at multiples of it


def typical_bytes(program: Program) -> int:
    """Returns the logged typical size of a program, or a guess: the 90th percentile of the bytes of its accesses."""
    logged = LOGGED.get(program.sha256[:12])
    if logged is not None:
        return logged
    sizes = program.access_bytes[program.fast_allowed[program.access_buffer]]
    return max(1, int(np.quantile(sizes, 0.9))) if len(sizes) else 1


def slice_sizes(program: Program, options: Options) -> list[tuple[int, ...]]:
    """Returns for each buffer the sizes of its slices, lowest bytes first, none if not cut (XLA: `SliceProposer`).

    The compiler cuts along the outermost dimension that is long enough. That follows from the shape, which a program
    file does not hold. Slices are therefore read off the mappings in the file, for all buffers of the same size; a
    buffer that these prefetch and never cut is not cut. Other buffers are cut into equal parts, the most frequent case.
    """
    sizes: list[tuple[int, ...]] = [()] * program.num_buffers
    if options.max_slices < 2:
        return sizes
    known, whole = _seen(program)
    size_of = program.size.tolist()
    for buffer in np.flatnonzero(program.fast_allowed & (program.size >= options.slice_min_bytes)).tolist():
        size = size_of[buffer]
        sizes[buffer] = _sizes(size, options, known.get(size), buffer in whole)
    return sizes


def _sizes(size: int, options: Options, seen: tuple[int, ...] | None, whole: bool) -> tuple[int, ...]:
    """Returns the slices of a buffer: none if `whole`, those `seen` in a mapping, else equal parts."""
    part = options.slice_bytes
    if part > 0:
        return (*[part] * (size // part), *([size % part] if size % part else [])) if size > part else ()
    if whole:
        return ()
    if seen is not None:
        return seen
    part = -(-size // (options.max_slices * _TILE)) * _TILE
    parts = [part] * (size // part) + ([size % part] if size % part else [])
    return tuple(parts) if len(parts) > 1 else ()


@lru_cache(maxsize=KEPT)
def _seen(program: Program) -> tuple[dict[int, tuple[int, ...]], set[int]]:
    """Returns the slices by size of a buffer that the mappings in the program file show, and the buffers not to be cut.

    Those are the buffers that are prefetched and never cut, and all others of a size of which none is cut.
    """
    known: dict[int, tuple[int, ...]] = {}
    cut: set[int] = set()
    whole: set[int] = set()
    mappings = [program.production, *(variant.mapping for variant in program.variants)]
    for mapping in mappings:
        if mapping is None:
            continue
        parts: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
        for buffer, direction, _, end, low, high, *_ in mapping.copies.tolist():
            if direction == PREFETCH and direction != CROSS_PROGRAM:
                parts[buffer, end].add((low, high))
        for (buffer, _), ranges in parts.items():
            size = int(program.size[buffer])
            if len(ranges) > 1:
                known[size] = tuple(high - low for low, high in sorted(ranges))
                cut.add(buffer)
            else:
                whole.add(buffer)
    sizes = {int(program.size[buffer]) for buffer in whole} - set(known)
    alike = {buffer for buffer, size in enumerate(program.size.tolist()) if size in sizes}
    return known, (whole - cut) | alike
