"""A small residency game and a small network for tests."""

import jax
from actor_cases import Recorder, skips

from mallocmuzero.actors.search.search import SearchConfig
from mallocmuzero.actors.self_play.config import RESIDENCY, ActorConfig
from mallocmuzero.actors.self_play.residency_actor import ResidencyActor
from mallocmuzero.actors.self_play.residency_config import ResidencyConfig
from mallocmuzero.env.program.program import Program
from mallocmuzero.launch.config.config import network_sizes
from mallocmuzero.learner.networks.network import Network, NetworkConfig, Params

CONFIG = ActorConfig(
    decisions=RESIDENCY,
    objective="msa",
    games=3,
    residency=ResidencyConfig(candidates=6, moves=3, rounds=4, games=2, idle_rounds=2),
)
NETWORK = Network(NetworkConfig(**network_sizes(CONFIG), width=16, candidate_width=8, projection_width=8))
SEARCH = SearchConfig(simulations=8, max_considered=8)


def parameters(seed: int = 0) -> Params:
    """Fresh parameters."""
    return NETWORK.init(jax.random.key(seed))


def make_residency_actor(
    programs: list[Program] | None = None, config: ActorConfig = CONFIG, seed: int = 0, refuse: int = 0
) -> tuple[ResidencyActor, list[Recorder]]:
    writers = [Recorder(refuse) for _ in range(config.games)]
    given = [skips(), skips(7, "longer")] if programs is None else programs
    actor = ResidencyActor(given, NETWORK, SEARCH, config, writers, seed)
    actor.set_parameters(parameters(), 7)
    return actor, writers
