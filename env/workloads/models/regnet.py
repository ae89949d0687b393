"""RegNet: the Flax model of `transformers`."""

from typing import Any

from .common import Described, array, cross_entropy, half, training_step, transformers_model


def regnet_y040_b64() -> Described:
    """RegNetY-4GF inference, batch 64."""
    model, variables = _model([2, 6, 12, 2], [128, 192, 512, 1088], 64)

    def f(variables: Any, images: Any) -> Any:
        return model(images, params=variables, train=False).logits

    return f, (variables, array((64, 3, 224, 224)))


def regnet_y004_train_b32() -> Described:
    """Training step of RegNetY-400MF, batch 32."""
    model, variables = _model([1, 3, 6, 6], [48, 104, 208, 440], 8)

    def loss(params: Any, statistics: Any, images: Any, labels: Any) -> Any:
        output, _ = model(images, params={"params": params, "batch_stats": statistics}, train=True)
        return cross_entropy(output.logits, labels)

    images, labels = array((32, 3, 224, 224)), array((32,), "int32")
    return training_step(loss, variables["params"], half(variables["batch_stats"]), images, labels)


def _model(depths: list[int], widths: list[int], group: int) -> tuple[Any, Any]:
    from transformers import FlaxRegNetForImageClassification, RegNetConfig

    config = RegNetConfig(depths=depths, hidden_sizes=widths, groups_width=group, layer_type="y", num_labels=1000)
    return transformers_model(FlaxRegNetForImageClassification, config, (1, 224, 224, 3))
