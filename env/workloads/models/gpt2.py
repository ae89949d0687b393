"""GPT-2: the Flax model of `transformers`."""

from typing import Any

from .common import Described, array, transformers_model


def gpt2_b4_s512() -> Described:
    """GPT-2 inference, batch 4, length 512."""
    from transformers import FlaxGPT2LMHeadModel, GPT2Config

    model, params = transformers_model(FlaxGPT2LMHeadModel, GPT2Config(), (1, 128))

    def f(params: Any, ids: Any) -> Any:
        return model(ids, params=params, train=False).logits

    return f, (params, array((4, 512), "int32"))
