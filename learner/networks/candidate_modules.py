"""The flax modules of a network that chooses among candidates, each described by a row of features.

All candidates share the same weights, so their order does not matter, and one that the search has never seen can be
scored by itself (`CandidateModule.score`). The last action, which has no row, is to stop.

Shapes: `K` candidates, `F` features of a candidate, `G` further numbers of an observation, `E` width of a candidate in
the latent state, `H` width of what is common to all; `W = K * E + H`.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from .modules import Head, Projection

# Each candidate's outcome is predicted by its gain and by the logit of the chance that it gains anything.
OUTCOME_HEADS = 2


class CandidateEncoder(nn.Module):
    """Features `[..., F]` to embeddings `[..., E]`. The first feature is 1, or 0 for a candidate that is missing."""

    hidden: int
    width: int

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        hidden = nn.relu(nn.Dense(self.hidden, name="dense_1")(features))
        hidden = nn.relu(nn.Dense(self.hidden, name="dense_2")(hidden))
        return jnp.tanh(nn.Dense(self.width, name="dense_3")(hidden)) * features[..., :1]


class OutcomeHead(nn.Module):
    """Embeddings `[..., E]` to predicted outcomes `[..., OUTCOME_HEADS]`, zero at first."""

    @nn.compact
    def __call__(self, embedding: jax.Array) -> jax.Array:
        return nn.Dense(OUTCOME_HEADS, kernel_init=nn.initializers.zeros_init(), name="dense")(embedding)


class CandidateRepresentation(nn.Module):
    """Observations `[B, K * F + G]` to latent states `[B, W]`."""

    candidates: int
    features: int
    width: int
    common: int
    hidden: int

    def setup(self) -> None:
        self.encoder = CandidateEncoder(self.hidden, self.width)
        self.pool = nn.Dense(self.common)

    def __call__(self, observation: jax.Array) -> jax.Array:
        rows, rest = jnp.split(observation, [self.candidates * self.features], axis=-1)
        embedded = self.encoder(rows.reshape(*rows.shape[:-1], self.candidates, self.features))
        common = jnp.tanh(self.pool(jnp.concatenate([embedded.mean(-2), embedded.max(-2), rest], axis=-1)))
        return join(embedded, common)


class CandidateDynamics(nn.Module):
    """Latent states `[B, W]` and actions `[B]` to next latent states `[B, W]` and reward logits `[B, bins]`."""

    candidates: int
    width: int
    common: int
    reward_bins: int

    @nn.compact
    def __call__(self, latent: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        embedded, common = part(latent, self.candidates, self.width)
        chosen = jax.nn.one_hot(action, self.candidates)  # of zeros for the action to stop
        made = jnp.einsum("bk,bke->be", chosen, embedded)
        stop = (action == self.candidates).astype(latent.dtype)[:, None]
        hidden = nn.relu(nn.Dense(2 * self.common, name="common_1")(jnp.concatenate([common, made, stop], axis=-1)))
        reward_logits = Head(self.reward_bins, name="reward")(hidden)
        after = jnp.tanh(common + nn.Dense(self.common, name="common_2")(hidden))
        shared = jnp.concatenate([after, made, stop], axis=-1)[:, None]
        others = jnp.concatenate(
            [embedded, jnp.broadcast_to(shared, (*embedded.shape[:2], shared.shape[-1])), chosen[..., None]], axis=-1
        )
        hidden = nn.relu(nn.Dense(2 * self.width, name="candidate_1")(others))
        change = nn.Dense(self.width, name="candidate_2")(hidden)
        return join(jnp.tanh(embedded + change), after), reward_logits


class CandidatePrediction(nn.Module):
    """Latent states `[..., W]` to policy logits `[..., K + 1]` and value logits `[..., bins]`."""

    candidates: int
    width: int
    value_bins: int

    @nn.compact
    def __call__(self, latent: jax.Array) -> tuple[jax.Array, jax.Array]:
        embedded, common = part(latent, self.candidates, self.width)
        spread = jnp.broadcast_to(common[..., None, :], (*embedded.shape[:-1], common.shape[-1]))
        hidden = nn.relu(nn.Dense(2 * self.width, name="policy_1")(jnp.concatenate([embedded, spread], axis=-1)))
        logits = Head(1, name="policy")(hidden)[..., 0]
        pooled = jnp.concatenate([embedded.mean(-2), embedded.max(-2), common], axis=-1)
        hidden = nn.relu(nn.Dense(2 * common.shape[-1], name="value_1")(pooled))
        stop = Head(1, name="stop")(hidden)
        return jnp.concatenate([logits, stop], axis=-1), Head(self.value_bins, name="value")(hidden)


def join(embedded: jax.Array, common: jax.Array) -> jax.Array:
    """Returns the latent state `[..., W]` of candidates `[..., K, E]` and what is common to them `[..., H]`."""
    return jnp.concatenate([embedded.reshape(*embedded.shape[:-2], -1), common], axis=-1)


def part(latent: jax.Array, candidates: int, width: int) -> tuple[jax.Array, jax.Array]:
    """Returns what `join` has joined."""
    rows, common = jnp.split(latent, [candidates * width], axis=-1)
    return rows.reshape(*rows.shape[:-1], candidates, width), common


class CandidateModule(nn.Module):
    """All parts under one parameter tree; `Network` calls them one by one, as those of `MuZeroModule`."""

    candidates: int
    features: int
    width: int
    common: int
    hidden: int
    projection_width: int
    reward_bins: int
    value_bins: int

    def setup(self) -> None:
        self.representation = CandidateRepresentation(
            self.candidates, self.features, self.width, self.common, self.hidden
        )
        self.dynamics = CandidateDynamics(self.candidates, self.width, self.common, self.reward_bins)
        self.prediction = CandidatePrediction(self.candidates, self.width, self.value_bins)
        self.outcome = OutcomeHead()
        self.projection = Projection(self.projection_width)
        self.projection_predictor = Projection(self.projection_width)

    def everything(self, observation: jax.Array, action: jax.Array) -> tuple[jax.Array, ...]:
        """Calls every part, so that `init` makes all parameters."""
        latent, reward_logits = self.transition(self.represent(observation), action)
        return reward_logits, *self.predict(latent), self.project_online(latent), self.score_latent(latent)

    def represent(self, observation: jax.Array) -> jax.Array:
        return self.representation(observation)

    def transition(self, latent: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.dynamics(latent, action)

    def predict(self, latent: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.prediction(latent)

    def project(self, latent: jax.Array) -> jax.Array:
        return self.projection(latent)

    def project_online(self, latent: jax.Array) -> jax.Array:
        return self.projection_predictor(self.projection(latent))

    def score_latent(self, latent: jax.Array) -> jax.Array:
        """Returns the predicted outcomes `[..., K, OUTCOME_HEADS]` of the candidates of latent states."""
        return self.outcome(part(latent, self.candidates, self.width)[0])

    def score(self, features: jax.Array) -> jax.Array:
        """Returns the predicted outcomes `[..., OUTCOME_HEADS]` of candidates by themselves, `[..., F]`."""
        return self.outcome(self.representation.encoder(features))
