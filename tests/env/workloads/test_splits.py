"""The split of a family that came after the first ones follows from its name."""

import hashlib

from mallocmuzero.env.workloads import all_names, workload

# Families from before the rule of docs/benchmark.md; each keeps the split that it has.
FIRST = frozenset(
    [
        "alexnet",
        "alphatensor",
        "bart",
        "bert",
        "clip",
        "convnext",
        "densenet",
        "dlrm",
        "efficientnet",
        "gpt2",
        "graph",
        "inception",
        "llama",
        "lstm",
        "mixer",
        "mobilenet",
        "moe",
        "regnet",
        "resnet",
        "strassen",
        "t5",
        "tiny",
        "unet",
        "vae",
        "vgg",
        "vit",
        "wav2vec2",
        "whisper",
    ]
)


def test_new_families_are_assigned_by_their_names() -> None:
    new = {(entry.family, entry.split) for name in all_names() if (entry := workload(name)).family not in FIRST}
    assert new
    for family, split in new:
        number = hashlib.sha256(family.encode()).digest()[0] % 4
        assert split == ("train", "train", "validation", "heldout")[number], family
