"""Models of other modules over the chips of a topology: arguments get shardings, and the compiler does the rest.

A function of this module takes the devices of the topology. Weights are split by their names, as Shoeybi et al. 2019,
arXiv:1909.08053, split them (`model`), or along their longest axis and gathered where they are used, as Rajbhandari
et al. 2020, arXiv:1910.02054, do (`gathered`); without either every chip has all of them.
"""

from typing import Any

from .common import Described

# The axis, from the end, along which a weight is split: heads and hidden features.
_SPLIT = {
    **dict.fromkeys(("query", "value", "qkv", "self_q", "self_k", "self_v", "cross_q", "cross_k", "cross_v"), 2),
    **dict.fromkeys(("key", "gate", "up", "head"), 1),
    **dict.fromkeys(("out", "down", "self_out", "cross_out", "table"), 2),
}


def spread(described: Described, mesh: Any, batch: int, ways: str = "", batch_axis: int = 0) -> Described:
    """Returns a described function whose arguments are sharded over a mesh with the axes `data` and `model`.

    Args:
      described: the function and its arguments; the last of them are the batch.
      mesh: a mesh whose axes are called `data` and, with `ways` of `model`, `model`.
      batch: number of arguments that are the batch; they are split over `data`.
      ways: how other arguments are split: `model`, `gathered`, or nothing for not at all.
      batch_axis: axis of the batch in its arrays.
    """
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    function, arguments = described

    def sharded(leaf: Any, axis: int | None, name: str) -> Any:
        spec = [None] * len(leaf.shape)
        if axis is not None and leaf.shape[axis] % mesh.shape[name] == 0:
            spec[axis] = name  # type: ignore[call-overload]
        sharding = NamedSharding(mesh, PartitionSpec(*spec))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    def weight(path: Any, leaf: Any) -> Any:
        if ways == "gathered" and len(leaf.shape) > 1:
            longest = max(range(len(leaf.shape)), key=lambda axis: leaf.shape[axis])
            return sharded(leaf, longest, "data")
        named = next((key.key for key in reversed(path) if hasattr(key, "key")), "")
        axis = _SPLIT.get(named) if ways == "model" else None
        return sharded(leaf, None if axis is None else len(leaf.shape) - axis, "model")

    weights = jax.tree_util.tree_map_with_path(weight, arguments[: len(arguments) - batch])
    given = [sharded(leaf, batch_axis, "data") for leaf in arguments[len(arguments) - batch :]]
    return function, (*weights, *given)


def _mesh(devices: Any, model: int = 1) -> Any:
    from jax.sharding import Mesh

    return Mesh(devices.reshape(-1, model), ("data", "model"))


def llama_2d(devices: Any) -> Described:
    """Training step of a scanned Llama, batch 8, length 512, split by batch and by model."""
    from .common import array, training_step
    from .llama_scan import loss, params

    ids = array((8, 512), "int32")
    step = training_step(loss(rematerialised=False), params(8), ids, ids)
    return spread(step, _mesh(devices, 2), 2, "model")


def llama_wide(devices: Any) -> Described:
    """Training step with Adam of a scanned Llama, rematerialised, batch 32, length 512, four ways by model."""
    from .common import array
    from .llama_scan import loss, params
    from .repeated import adam_step

    ids = array((32, 512), "int32")
    return spread(adam_step(loss(rematerialised=True), params(12), ids, ids), _mesh(devices, 4), 2, "model")


def llama_prefill(devices: Any) -> Described:
    """Inference with a scanned Llama, batch 4, length 512, split by batch and by model."""
    from .llama_scan import llama_scan_b4_s512

    return spread(llama_scan_b4_s512(), _mesh(devices, 4), 1, "model")


def gemma_gathered(devices: Any) -> Described:
    """Training step of a scanned Gemma-style decoder, batch 8, length 512; weights gathered layer by layer."""
    from .gemma import gemma_scan_remat_train_b8_s512

    return spread(gemma_scan_remat_train_b8_s512(), _mesh(devices), 2, "gathered")


def dit_data(devices: Any) -> Described:
    """Training step of DiT-B/2, scanned and rematerialised, batch 32, split by batch."""
    from .dit import dit_scan_remat_train_b32

    return spread(dit_scan_remat_train_b32(), _mesh(devices), 4)


def dit_model(devices: Any) -> Described:
    """Inference with a scanned DiT-B/2, batch 16, split by batch and by model."""
    from .dit import dit_scan_b16

    return spread(dit_scan_b16(), _mesh(devices, 4), 3, "model")


def conformer_data(devices: Any) -> Described:
    """Training step of a scanned Conformer, rematerialised, eight stretches of 16 s, split by batch."""
    from .conformer import conformer_scan_remat_train_b8

    return spread(conformer_scan_remat_train_b8(), _mesh(devices), 2)


def t5_model(devices: Any) -> Described:
    """Inference with a scanned T5-small, batch 16, split by batch and by model."""
    from .t5_scan import t5_scan_b16

    return spread(t5_scan_b16(), _mesh(devices, 2), 2, "model")


def t5_gathered(devices: Any) -> Described:
    """Training step of a scanned T5-base, rematerialised, batch 16; weights gathered layer by layer."""
    from .t5_scan import t5_scan_remat_train_b16

    return spread(t5_scan_remat_train_b16(), _mesh(devices), 3, "gathered")


def mixer_data(devices: Any) -> Described:
    """Training step of a scanned MLP-Mixer, rematerialised, batch 32, split by batch."""
    from .mixer_scan import mixer_scan_remat_train_b32

    return spread(mixer_scan_remat_train_b32(), _mesh(devices), 2)


def gru_data(devices: Any) -> Described:
    """Training step of a two-layer GRU language model, batch 32, length 64, split by batch."""
    from .gru import gru_train_b32_s64

    return spread(gru_train_b32_s64(), _mesh(devices), 2, batch_axis=1)


def retnet_model(devices: Any) -> Described:
    """Training step of a scanned retentive network, batch 4, length 1024, split by batch and by model."""
    from .retnet import retnet_scan_train_b4_s1024

    return spread(retnet_scan_train_b4_s1024(), _mesh(devices, 2), 2, "model")
