"""Counts, crudely, the elements that one sample of an architecture keeps alive at once. Runs without jax."""

from .architecture import Architecture


def live_elements(drawn: Architecture) -> float:
    """Returns the elements of activations that one sample keeps alive: all of a training step, the most of inference.

    XLA keeps more or fewer; twice as many or half as many are no fault.
    """
    layers, head = _IMAGES[drawn.kind](drawn) if drawn.kind in _IMAGES else _others(drawn)
    if drawn.step == "inference":
        return 1.5 * max(*layers, head)
    if drawn.rematerialised:
        return 0.4 * sum(layers) + max(layers) + 2 * head
    return sum(layers) + 2 * head


def _stages(drawn: Architecture, per_block: float) -> list[float]:
    """Returns the elements of every block of a network whose stages halve the side and double the width."""
    side, width, elements = drawn.length // drawn.options["patch"], drawn.width, []
    for _ in range(drawn.options["stages"]):
        elements += [per_block * side * side * width] * drawn.options["blocks"]
        side, width = max(1, side // 2), 2 * width
    return elements


def _plain(drawn: Architecture) -> tuple[list[float], float]:
    return _stages(drawn, 2.5), drawn.options["classes"]


def _residual(drawn: Architecture) -> tuple[list[float], float]:
    return _stages(drawn, 7.0 if drawn.options["bottleneck"] else 4.5), drawn.options["classes"]


def _inverted(drawn: Architecture) -> tuple[list[float], float]:
    return _stages(drawn, 2.0 + 3.0 * drawn.options["expansion"]), drawn.options["classes"]


def _ushape(drawn: Architecture) -> tuple[list[float], float]:
    layers = _stages(drawn, 4.5)
    whole = sum(layers) if drawn.step == "inference" else 0.0
    return [*layers, *(1.6 * layer for layer in layers)], 0.7 * whole


def _autoencoder(drawn: Architecture) -> tuple[list[float], float]:
    layers = _stages(drawn, 3.0)
    return [*layers, *layers], 0.0


def _hybrid(drawn: Architecture) -> tuple[list[float], float]:
    layers = _stages(drawn, 4.5)
    side = max(1, (drawn.length // drawn.options["patch"]) >> drawn.options["stages"])
    width = drawn.width << drawn.options["stages"]
    return [*layers, *[_attended(side * side, width, drawn)] * drawn.depth], drawn.options["classes"]


_IMAGES = {
    "plain": _plain,
    "residual": _residual,
    "inverted": _inverted,
    "ushape": _ushape,
    "autoencoder": _autoencoder,
    "hybrid": _hybrid,
}


def _attended(tokens: int, width: int, drawn: Architecture) -> float:
    """Returns the elements of one layer of attention and feed-forward."""
    per_token = 7 + drawn.options["hidden"] * (3 if drawn.options["gated"] else 2)
    scores = 2 * drawn.options["heads"] * tokens * tokens
    if drawn.step == "inference":
        return max(per_token * tokens * width / 2, 1.0 * scores)
    return per_token * tokens * width + scores


def _others(drawn: Architecture) -> tuple[list[float], float]:
    options, length, width = drawn.options, drawn.length, drawn.width
    if drawn.kind == "cached":
        return [4.0 * length * width / options["shared"]], options["vocabulary"]
    if drawn.kind == "recurrent":
        return [6.0 * length * width] * drawn.depth, length * options["vocabulary"] / 4
    if drawn.kind == "interaction":
        joined = (options["tables"] + 1) ** 2 / 2 + options["tables"] * width
        return [4.0 * joined, *[8.0 * width * 4] * drawn.depth], 1.0
    if drawn.kind == "graph":
        return [length * width * (4.0 + 4.0 * options["degree"])] * drawn.depth, length
    if drawn.kind == "wired":
        area = length * length * width
        kept = 3.0 + drawn.depth / 10 if drawn.step == "inference" else drawn.depth * 2.2
        return [area * kept], 1.0
    if drawn.kind == "towers":
        return [_attended(length, width, drawn)] * (2 * drawn.depth), width
    layer = _attended(length, width, drawn)
    if drawn.kind == "experts":
        layer += (options["experts"] if options["everywhere"] else 2 * options["chosen"]) * length * width * 3.0
    if drawn.kind == "linear":
        layer = 14.0 * length * width
    layers = [layer] * drawn.depth * (2 if drawn.kind == "crossed" else 1)
    return layers, 1.0 * length * options["vocabulary"]
