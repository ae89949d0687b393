"""ResNet: the Flax model of `transformers`, and the Haiku one for training, which averages over the batch."""

from typing import Any

from .common import Described, array, cross_entropy, half, training_step, transformers_model
from .repeated import adam_step


def resnet50_b128() -> Described:
    """ResNet-50 inference, batch 128."""
    return _inference(128)


def resnet50_b32() -> Described:
    """ResNet-50 inference, batch 32."""
    return _inference(32)


def resnet101_b32() -> Described:
    """ResNet-101 inference, batch 32."""
    return _inference(32, depths=[3, 4, 23, 3])


def resnet18_train_b64() -> Described:
    """Training step of ResNet-18, batch 64."""
    return _training(64, depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic")


def resnet152_adam_b32() -> Described:
    """Training step with Adam of ResNet-152, batch 32."""
    model, variables = _model(depths=[3, 8, 36, 3])

    def loss(params: Any, statistics: Any, images: Any, labels: Any) -> Any:
        output, _ = model(images, params={"params": params, "batch_stats": statistics}, train=True)
        return cross_entropy(output.logits, labels)

    statistics = half(variables["batch_stats"])
    return adam_step(loss, variables["params"], statistics, array((32, 3, 224, 224)), array((32,), "int32"))


def _model(**sizes: Any) -> tuple[Any, Any]:
    from transformers import FlaxResNetForImageClassification, ResNetConfig

    config = ResNetConfig(num_labels=1000, **sizes)
    return transformers_model(FlaxResNetForImageClassification, config, (1, 224, 224, 3))


def _inference(batch: int, **sizes: Any) -> Described:
    model, params = _model(**sizes)

    def f(params: Any, images: Any) -> Any:
        return model(images, params=params, train=False).logits

    return f, (params, array((batch, 3, 224, 224)))


def _training(batch: int, **sizes: Any) -> Described:
    model, variables = _model(**sizes)

    def loss(params: Any, statistics: Any, images: Any, labels: Any) -> Any:
        variables = {"params": params, "batch_stats": statistics}
        output, _ = model(images, params=variables, train=True)
        return cross_entropy(output.logits, labels)

    statistics = half(variables["batch_stats"])
    return training_step(loss, variables["params"], statistics, array((batch, 3, 224, 224)), array((batch,), "int32"))
