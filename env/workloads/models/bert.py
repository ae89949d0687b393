"""BERT: the Flax model of `transformers`."""

from typing import Any

from .common import Described, array, cross_entropy, training_step, transformers_model
from .repeated import adam_step

_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}


def bert_train_b8() -> Described:
    """Training step of BERT-base (masked language model), batch 8, length 128."""
    return _training(8, 128)


def bert_b32_s384() -> Described:
    """BERT-base inference, batch 32, length 384."""
    return _inference(32, 384)


def bert_large_b8_s384() -> Described:
    """BERT-large inference, batch 8, length 384."""
    return _inference(8, 384, **_LARGE)


def bert_large_train_b4() -> Described:
    """Training step of BERT-large with eight of its layers, batch 4, length 256."""
    return _training(4, 256, **{**_LARGE, "num_hidden_layers": 8})


def bert_large_adam_b8() -> Described:
    """Training step with Adam of BERT-large, 24 layers, two batches of 4 x 128 whose losses are added."""
    from transformers import BertConfig, FlaxBertForMaskedLM

    config = BertConfig(
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model, params = transformers_model(FlaxBertForMaskedLM, config, (1, 128))

    def loss(params: Any, *batch: Any) -> Any:
        parts = zip(*(given.reshape(2, 4, 128) for given in batch), strict=True)
        return sum(
            cross_entropy(model(ids, attention_mask=mask, params=params, train=False).logits, labels)
            for ids, mask, labels in parts
        )

    ids = array((8, 128), "int32")
    return adam_step(loss, params, ids, ids, ids)


def _config(**sizes: Any) -> Any:
    from transformers import BertConfig

    return BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes)


def _inference(batch: int, length: int, **sizes: Any) -> Described:
    from transformers import FlaxBertModel

    model, params = transformers_model(FlaxBertModel, _config(**sizes), (1, 128))

    def f(params: Any, ids: Any, mask: Any) -> Any:
        return model(ids, attention_mask=mask, params=params, train=False).last_hidden_state

    ids = array((batch, length), "int32")
    return f, (params, ids, ids)


def _training(batch: int, length: int, **sizes: Any) -> Described:
    from transformers import FlaxBertForMaskedLM

    model, params = transformers_model(FlaxBertForMaskedLM, _config(**sizes), (1, 128))

    def loss(params: Any, ids: Any, mask: Any, labels: Any) -> Any:
        return cross_entropy(model(ids, attention_mask=mask, params=params, train=False).logits, labels)

    ids = array((batch, length), "int32")
    return training_step(loss, params, ids, ids, ids)
