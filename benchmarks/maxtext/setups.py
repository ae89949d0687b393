"""The training steps: models of MaxText, each on a topology that holds it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Setup:
    """A model of MaxText on some chips.

    Attributes:
      model: MaxText's name of the model, `model_name`.
      chips: MaxText's name of the topology, `compile_topology`.
      target: the same topology as `tune` names it.
      batch: sequences per chip, `per_device_batch_size`.
      length: tokens of a sequence, `max_target_length`.
      devices: the order in which MaxText's mesh has the devices, as `jax.experimental.mesh_utils` makes it.
    """

    model: str
    chips: str
    target: str
    batch: int
    length: int
    devices: str

    @property
    def name(self) -> str:
        """The name of the setup, also of its files."""
        return f"{self.model}-{self.chips}"

    @property
    def arguments(self) -> list[str]:
        """MaxText's own arguments.

        All else is as MaxText sets it, but for the attention: Tokamax's kernels state their costs, which both cost
        models need. Those that MaxText takes by default count as one cycle each.
        """
        return [
            f"model_name={self.model}",
            f"compile_topology={self.chips}",
            "compile_topology_num_slices=1",
            f"per_device_batch_size={self.batch}",
            f"max_target_length={self.length}",
            "use_tokamax_splash=true",
            "dataset_type=synthetic",
        ]


SETUPS = (
    Setup("qwen3-0.6b", "v5e-4", "v5e:2x2", 4, 2048, "0,1,3,2"),
    Setup("gemma2-2b", "v6e-4", "v6e:2x2", 2, 4096, "0,1,3,2"),
    Setup("llama3.1-8b", "v5p-8", "v5p:2x2x1", 2, 4096, "0,2,1,3"),
    Setup("deepseek2-16b", "v5p-16", "v5p:2x2x2", 1, 4096, "0,1,3,2,6,7,5,4"),
    Setup("gpt-oss-20b", "v6e-16", "v6e:4x4", 1, 4096, "0,1,2,3,7,6,5,9,10,11,15,14,13,12,8,4"),
    Setup("mixtral-8x7b", "v5p-32", "v5p:2x2x4", 1, 4096, "0,4,8,12,2,6,10,14,1,5,9,13,3,7,11,15"),
)
