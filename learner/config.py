"""Hyper-parameters of the learner."""

from dataclasses import dataclass

from ..env.errors import UserError

TD = "td"
MAX = "max"
STORED = "stored"


@dataclass(frozen=True)
class LearnerConfig:
    """Hyper-parameters of the learner. Sizes of the network, which a checkpoint must agree on, are in `NetworkConfig`.

    Attributes:
      batch_size: `B`, segments per update.
      unroll_steps: `K`, dynamics steps per segment.
      td_steps: rewards summed before the target network's value takes over.
      discount: per move; the same as the search's.
      value_target: `td`: the n-step return; `stored`: the value that the actor has stored with the step (in branches
        the return of the game from there on, in whole games the value of the search); `max`: the larger of both. The
        game is deterministic, so a return that was found once stays reachable.
      learning_rate: peak of the schedule.
      warmup_steps: updates over which the learning rate rises linearly from zero.
      decay_steps: updates over which it then falls by a cosine, or None to hold it.
      final_learning_rate: learning rate at the end of that fall.
      weight_decay: of AdamW, on matrices only.
      clip_norm: largest global norm of a gradient.
      target_period: updates between two moves of the target network.
      target_rate: fraction of the way to the parameters that it moves: 1 copies them; period 1 and a small rate make a
        moving average.
      policy_weight, value_weight, reward_weight, consistency_weight: factors of the four losses (arXiv 2111.00210).
      outcome_weight: factor of the loss of predicted outcomes, for networks that choose among candidates.
      observation_dropout: probability that a number of an observation is hidden (0) from the network that learns; it
        keeps a network that sees few programs from memorising them.
      importance_exponent: share of the bias of prioritised sampling that is undone, from 0 (none) to 1 (all).
      reanalyse_fraction: part of each batch whose policy and search-value targets are searched anew with the target
        network; needs a search function, see `make_update`. With the `value_target` `td` it renews the policy only.
    """

    batch_size: int = 128
    unroll_steps: int = 5
    td_steps: int = 10
    discount: float = 1.0
    value_target: str = TD
    learning_rate: float = 1e-3
    warmup_steps: int = 200
    decay_steps: int | None = None
    final_learning_rate: float = 1e-4
    weight_decay: float = 1e-4
    clip_norm: float = 5.0
    target_period: int = 100
    target_rate: float = 1.0
    policy_weight: float = 1.0
    value_weight: float = 0.25
    reward_weight: float = 1.0
    consistency_weight: float = 2.0
    outcome_weight: float = 1.0
    observation_dropout: float = 0.0
    importance_exponent: float = 1.0
    reanalyse_fraction: float = 0.0

    def __post_init__(self) -> None:
        for name in ("batch_size", "unroll_steps", "td_steps", "target_period"):
            if getattr(self, name) < 1:
                raise UserError(f"learner: {name} must be at least 1, not {getattr(self, name)}")
        for name in (
            "learning_rate",
            "final_learning_rate",
            "warmup_steps",
            "weight_decay",
            "policy_weight",
            "value_weight",
            "reward_weight",
            "consistency_weight",
            "outcome_weight",
        ):
            if not getattr(self, name) >= 0:
                raise UserError(f"learner: {name} must not be negative, not {getattr(self, name)}")
        for name in ("importance_exponent", "reanalyse_fraction"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UserError(f"learner: {name} must be in [0, 1], not {getattr(self, name)}")
        if not 0.0 <= self.observation_dropout < 1.0:
            raise UserError(f"learner: observation_dropout must be in [0, 1), not {self.observation_dropout}")
        for name in ("discount", "target_rate"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise UserError(f"learner: {name} must be in (0, 1], not {getattr(self, name)}")
        if not self.clip_norm > 0:
            raise UserError(f"learner: clip_norm must be positive, not {self.clip_norm}")
        if self.decay_steps is not None and self.decay_steps < 1:
            raise UserError(f"learner: decay_steps must be at least 1 or None, not {self.decay_steps}")
        if self.value_target not in (TD, MAX, STORED):
            raise UserError(f"learner: value_target must be {TD}, {STORED} or {MAX}, not {self.value_target!r}")
        if self.discount < 1.0 and self.value_target != TD:
            raise UserError(
                f"learner: discount is {self.discount}, but the values that actors store are not discounted; set "
                f"discount to 1, or value_target to {TD}"
            )

    @property
    def segment_length(self) -> int:
        """`S`, the steps of a segment."""
        return self.unroll_steps + self.td_steps + 1
