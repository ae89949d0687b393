"""Draws an architecture from a seed: kind of network, sizes, step, type, target. Runs without jax.

Sizes follow a wanted pressure, the bytes that are live at once over those of fast memory: a crude count of the bytes
that a sample keeps alive gives the batch. Widths, heads and vocabularies of held-out families are left out.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .architecture import IMAGES, KINDS, Architecture
from .sizes import live_elements

# MiB of fast memory, about: it only sets the sizes that are drawn.
_FAST_MIB = {"v4": 64, "v5e": 112, "v5p": 48, "v6e": 96}
# Here the compiler hands gathers to a core of their own, in asynchronous instructions that capture does not read.
_OFFLOADING = ("v5p", "v6e")
# Their layers have one shape, so that a loop may go over them.
_ALIKE = ("encoder", "decoder", "crossed", "experts", "linear", "hybrid")
# Their samples are compared with each other, or share a graph: no part of a batch stands alone.
_WHOLE = ("towers", "graph")


class _Dice:
    """Draws that depend on the seed and on nothing of Python's version but `random()`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def pick(self, values: Sequence[Any]) -> Any:
        return values[int(self._random() * len(values))]

    def chance(self, share: float) -> bool:
        return self._random() < share

    def between(self, low: float, high: float) -> float:
        """Returns a number whose logarithm is uniform."""
        return float(low * (high / low) ** self._random())

    def weighted(self, weights: dict[str, int]) -> str:
        left = self._random() * sum(weights.values())
        for name, weight in weights.items():
            left -= weight
            if left < 0:
                return name
        return name


def draw(seed: int) -> Architecture:
    """Returns the architecture of a seed."""
    dice = _Dice(seed)
    target = dice.pick(list(_FAST_MIB))
    kind = dice.weighted(KINDS)
    step = "inference" if kind == "cached" else dice.weighted({"inference": 5, "gradient": 1, "training": 6})
    optimiser = dice.weighted({"sgd": 2, "momentum": 3, "adam": 4, "sign": 1}) if step == "training" else ""
    dtype = dice.weighted({"bfloat16": 6, "float32": 2, "mixed": 3})
    pressure = dice.between(0.4, 5.0)
    training = step != "inference"
    rematerialised = training and dice.chance(0.15)
    loops = {"": 9, "layers": 2 if kind in _ALIKE else 0, "batches": 1 if training and kind not in _WHOLE else 0}
    loop = dice.weighted(loops)
    length, width, depth, options = _images(dice, kind, training) if kind in IMAGES else _others(dice, kind, training)
    options["product"] = target in _OFFLOADING or dice.chance(0.2)
    if loop == "layers":
        depth = max(depth, 4)
    drawn = Architecture(
        seed, target, kind, step, optimiser, dtype, 1, length, width, depth, pressure, rematerialised, loop, options
    )
    return _fitted(drawn)


def _images(dice: _Dice, kind: str, training: bool) -> tuple[int, int, int, dict[str, Any]]:
    """Returns length, width, depth and options of a network on images."""
    options: dict[str, Any] = {
        "norm": dice.pick(["batch", "group", "batch", "layer"]),
        "act": dice.pick(["relu", "silu", "gelu"]),
        "kernel": dice.pick([3, 3, 3, 5]),
        "stages": dice.pick([2, 3, 3, 4]),
        "blocks": dice.pick([1, 2, 2, 3] if training else [1, 2, 3, 4]),
        "groups": dice.pick([1, 1, 1, 4, 8]),
        "patch": dice.pick([1, 2, 4]),
        "classes": dice.pick([10, 100, 360, 1200]),
        "bottleneck": dice.chance(0.4),
        "squeeze": dice.chance(0.5),
        "expansion": dice.pick([3, 4, 6]),
        "attention": dice.chance(0.4),
        "heads": dice.pick([4, 8]),
        "hidden": dice.pick([2, 3, 4]),
        "causal": False,
        "gated": dice.chance(0.3),
        "rotary": False,
    }
    length = dice.pick([48, 64, 96, 128, 160, 192])
    width = min(dice.pick([32, 48, 64, 64, 80, 128]), 512 >> (options["stages"] - 1))
    return length, width, options["stages"] * options["blocks"], options


def _others(dice: _Dice, kind: str, training: bool) -> tuple[int, int, int, dict[str, Any]]:
    """Returns length, width, depth and options of a network on sequences, graphs or tables."""
    # The optimiser keeps a training step's weights alive, and wide layers would leave no room for anything else.
    width = dice.pick([128, 192, 256, 320, 384, 512, 640] if training else [192, 256, 384, 512, 640, 896, 1280])
    options: dict[str, Any] = {
        "norm": dice.pick(["layer", "rms", "layer"]),
        "act": dice.pick(["relu", "gelu", "silu", "square"]),
        "heads": dice.pick([4, 8, 8, 10]),
        "shared": dice.pick([1, 1, 2]),
        "hidden": dice.pick([2, 3, 4, 5]),
        "gated": dice.chance(0.4),
        "rotary": dice.chance(0.4),
        "causal": kind in ("decoder", "cached", "experts") or dice.chance(0.3),
        "after": dice.chance(0.2),
        "vocabulary": dice.pick([2048, 4096, 6144, 12288, 24576]),
        "tied": dice.chance(0.5),
        "experts": dice.pick([4, 8, 12]),
        "chosen": dice.pick([1, 2]),
        "everywhere": dice.chance(0.25),
        "cell": dice.pick(["reset", "minimal", "highway"]),
        "unrolled": dice.chance(0.5),
        "both": dice.chance(0.3),
        "tables": dice.pick([4, 8, 12, 20]),
        "rows": dice.pick([5_000, 20_000, 50_000] if training else [10_000, 50_000, 200_000]),
        "degree": dice.pick([4, 8, 12]),
        "join": dice.pick(["sum", "product", "mixed"]),
        "images": dice.chance(0.4),
        "linear": dice.chance(0.4),
    }
    options["heads"] = options["heads"] if width % (8 * options["heads"]) == 0 else 8
    length = dice.pick([64, 96, 128, 192, 256, 384, 512, 768])
    depth = dice.pick([1, 2, 3, 4, 6] if training else [2, 3, 4, 6, 8, 12])
    if kind == "recurrent":
        length = dice.pick([8, 12, 16, 24] if options["unrolled"] else [24, 40, 72, 96])
        depth = dice.pick([1, 2, 3])
        width = dice.pick([256, 384, 512, 640, 896])
    elif kind == "cached":
        length = dice.pick([256, 512, 768, 1536, 3072])
    elif kind == "graph":
        length, width = dice.pick([256, 512, 1024]), dice.pick([64, 128, 192, 256])
    elif kind == "interaction":
        length, width = 1, dice.pick([32, 64, 96, 128])
        depth = dice.pick([2, 3, 4])
    elif kind == "wired":
        depth = dice.pick([12, 16, 24, 32] if training else [24, 40, 64, 96])
        length = dice.pick([16, 24, 32]) if options["images"] else 1
        width = dice.pick([64, 96, 128]) if options["images"] else dice.pick([128, 256, 384, 640])
        options["wires"] = _wires(dice, depth)
    return length, width, depth, options


def _wires(dice: _Dice, nodes: int) -> list[list[int]]:
    """Returns the inputs of every node: mostly the one before, at times some from long before; -1 is the input."""
    wires: list[list[int]] = []
    for node in range(nodes):
        sources = {node - 1 if dice.chance(0.8) else dice.pick(range(-1, node))}
        while dice.chance(0.45) and len(sources) < 4:
            sources.add(dice.pick(range(-1, node)))
        wires.append(sorted(sources))
    return wires


def _fitted(drawn: Architecture) -> Architecture:
    """Returns the architecture with a batch, and if need be a length, that come near the wanted pressure."""
    wide = 4 if drawn.dtype == "float32" else 2
    budget = drawn.pressure * _FAST_MIB[drawn.target] * 2**20 / wide
    while live_elements(drawn) > 1.5 * budget and drawn.length >= 32 and drawn.kind != "interaction":
        drawn = replace(drawn, length=drawn.length // 2)
    batch = budget / live_elements(drawn)
    steps = [size * factor for size in (2**power for power in range(18)) for factor in (1, 1.5)]
    nearest = min((int(size) for size in steps if size == int(size)), key=lambda size: abs(size - batch))
    if drawn.loop == "batches":
        nearest = max(4, nearest * 4)
    return replace(drawn, batch=max(1, nearest))
