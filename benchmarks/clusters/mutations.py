"""Damage to files, by accident or malice: to bytes, and to values in JSON."""

import json
import random
from typing import Any

Json = Any
# Values that readers stumble over: limits of types, paths that lead elsewhere, impossible file names, other kinds.
_HOSTILE: tuple[Json, ...] = (
    *(None, True, False, 0, 1, -1, 2, 255, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**300),
    *(0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "x", "x" * 5000, "../../../../etc/passwd", "/dev/zero", "/proc/self/mem", "a/../../b", "\0", "\ud800", "NaN"),
    *([], {}, [[]], [None], {"": None}, [[[[0]]]]),
)
# Raw text that no writer of JSON writes.
_TEXTS = (b"1e999", b"-", b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"\xff\xfe", b"\\ud800", b"Infinity", b"\x00")


def mutate_bytes(data: bytes, generator: random.Random) -> bytes:
    """Returns the bytes with one to four changes: a bit flipped, bytes replaced, cut, doubled or inserted."""
    changed = bytearray(data)
    for _ in range(generator.randint(1, 4)):
        if not changed:
            break
        place = generator.randrange(len(changed))
        length = min(len(changed) - place, generator.choice((1, 1, 2, 8, 64, 1000)))
        kind = generator.randrange(6)
        if kind == 0:
            changed[place] ^= 1 << generator.randrange(8)
        elif kind == 1:
            changed[place] = generator.choice((0, 1, 0x7F, 0x80, 0xC1, 0xDF, 0xFF, 0x20, 0x22, 0x30))
        elif kind == 2:
            del changed[place : place + length]
        elif kind == 3:
            changed[place:place] = changed[place : place + length]
        elif kind == 4:
            changed[place:place] = generator.choice(_TEXTS)
        else:
            del changed[place:]
    return bytes(changed)


def mutate_json(value: Json, generator: random.Random) -> Json:
    """Returns a copy of the value with one to three changes inside."""
    for _ in range(generator.randint(1, 3)):
        value = _mutate_once(value, generator)
    return value


def mutate_document(document: Json, generator: random.Random) -> bytes:
    """Returns the text of a JSON document with changed values, or in a quarter of cases with changed bytes."""
    changed = mutate_json(document, generator) if generator.random() < 0.75 else document
    data = json.dumps(changed).encode()
    return data if changed is not document else mutate_bytes(data, generator)


def _mutate_once(value: Json, generator: random.Random) -> Json:
    # Descends with a high probability, since most values are leaves.
    if isinstance(value, dict) and value and generator.random() < 0.9:
        key = generator.choice(list(value))
        rest = {name: item for name, item in value.items() if name != key}
        kind = generator.random()
        if kind < 0.08:
            return rest
        if kind < 0.12:
            return {**rest, generator.choice(("", "x", "../x", "\ud800", key + key)): value[key]}
        if kind < 0.16:
            return {**value, key: value[generator.choice(list(value))]}
        return {**value, key: _mutate_once(value[key], generator)}
    if isinstance(value, list) and value and generator.random() < 0.9:
        place = generator.randrange(len(value))
        kind = generator.random()
        if kind < 0.08:
            return value[:place] + value[place + 1 :]
        if kind < 0.14:
            return value[:place] + value[place : place + 1] * generator.choice((2, 100)) + value[place + 1 :]
        if kind < 0.18:
            return value[:place] + value[place:][::-1]
        return [*value[:place], _mutate_once(value[place], generator), *value[place + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and generator.random() < 0.5:
        return value + generator.choice((-1, 1, 2**31, -(2**31), 2**63))
    return generator.choice(_HOSTILE)
