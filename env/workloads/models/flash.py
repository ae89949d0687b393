"""Transformers whose attention is a Pallas kernel: JAX's flash attention (Dao et al. 2022, arXiv:2205.14135)."""

from typing import Any

from . import dit, llama_scan
from .common import Described, array, training_step
from .repeated import adam_step


def llama_flash_b2_s2048() -> Described:
    """Inference with a Llama of twelve scanned layers of width 1024, batch 2, length 2048: logits of the last token."""
    return llama_scan.last_logits(_attend), (llama_scan.params(12), array((2, 2048), "int32"))


def llama_flash_train_b2_s1024() -> Described:
    """Training step of a Llama of eight scanned layers, batch 2, length 1024."""
    loss = llama_scan.loss(False, _attend)
    return training_step(loss, llama_scan.params(8), *llama_scan.batch(2, 1024))


def llama_flash_remat_train_b4_s2048() -> Described:
    """Training step with Adam of a Llama of twelve layers, scanned and computed again, batch 4, length 2048."""
    loss = llama_scan.loss(True, _attend)
    return adam_step(loss, llama_scan.params(12), *llama_scan.batch(4, 2048))


def dit_flash_train_b16() -> Described:
    """Training step of eight scanned layers of DiT-B/2 on 32 x 32 latents, batch 16."""
    return dit.training(8, 16, False, _attend)


def _attend(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """Returns `[B, S, H * D]`; see `repeated.attend`. Keys and values of a group are repeated for each of its heads."""
    import jax.numpy as jnp
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    batch, length, heads, width = q.shape
    q, k, v = (jnp.repeat(x, heads // x.shape[2], 2).swapaxes(1, 2) for x in (q, k, v))
    y = flash_attention(q, k, v, causal=causal, sm_scale=width**-0.5)
    return y.swapaxes(1, 2).reshape(batch, length, heads * width)
