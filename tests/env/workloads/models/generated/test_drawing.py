"""Drawn architectures: the same for a seed for ever, of every kind, and no rebuilt model of a held-out family."""

from mallocmuzero.env.workloads.models.generated.architecture import KINDS
from mallocmuzero.env.workloads.models.generated.drawing import draw

DRAWN = [draw(seed) for seed in range(1000)]


def test_a_seed_stands_for_the_same_architecture_for_ever() -> None:
    assert DRAWN[3].description == "cached network, inference, depth 12, width 192, batch 32, length 1536, bfloat16"
    assert DRAWN[9] == draw(9)


def test_every_kind_target_and_step_is_drawn() -> None:
    assert {drawn.kind for drawn in DRAWN} == set(KINDS)
    assert {drawn.target for drawn in DRAWN} == {"v4", "v5e", "v5p", "v6e"}
    assert {drawn.step for drawn in DRAWN} == {"inference", "gradient", "training"}
    assert {drawn.dtype for drawn in DRAWN} == {"bfloat16", "float32", "mixed"}
    assert {drawn.loop for drawn in DRAWN} == {"", "layers", "batches"}
    assert all((drawn.step == "training") == bool(drawn.optimiser) for drawn in DRAWN)
    assert not any(drawn.rematerialised and drawn.step == "inference" for drawn in DRAWN)


def test_sizes_of_held_out_families_are_not_drawn() -> None:
    """Widths of BERT, MLP-Mixer, ConvNeXt (768), Llama, LSTM (1024), and their vocabularies."""
    assert not {768, 1024} & {drawn.width for drawn in DRAWN}
    assert not {16384, 30522, 32000} & {drawn.options.get("vocabulary") for drawn in DRAWN}


def test_shapes_divide() -> None:
    for drawn in DRAWN:
        assert drawn.batch >= 1
        assert drawn.depth >= 1
        if drawn.loop == "batches":
            assert drawn.batch % 4 == 0
        if drawn.kind in ("encoder", "decoder", "cached", "crossed", "experts", "towers"):
            assert drawn.width % (2 * drawn.options["heads"]) == 0
        for number, wires in enumerate(drawn.options.get("wires", [])):
            assert wires
            assert all(-1 <= wire < number for wire in wires)
