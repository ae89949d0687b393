"""A population of graph networks and Boltzmann chromosomes, and its evolution (Khadka et al., algorithm 1).

A *graph network* maps the graph of the program to a distribution over homes for every tensor. A *Boltzmann chromosome*
holds a prior and a temperature per tensor, whose quotient's softmax is the distribution: a table, without a view of the
program, that may be seeded with the distributions of a network.

Shapes: `G` networks, `D` parameters of a network, `C` chromosomes, `K` tensors, `H` homes, `P = G + C` individuals, the
networks first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Genes = NDArray[np.float64]

_LEAST_TEMPERATURE, _MOST_TEMPERATURE = 0.05, 5.0
# Least probability of a home in a seeded prior, so that every home stays reachable.
_LEAST_PROBABILITY = 1e-4


@dataclass(frozen=True)
class EvolutionConfig:
    """Hyper-parameters of evolution.

    Attributes:
      individuals: `P`.
      chromosomes: share of Boltzmann chromosomes.
      elites: share that survives unchanged.
      rivals: individuals in a tournament.
      mutation: probability that a child is mutated.
      genes: share of a child's genes that a mutation changes.
      noise: standard deviation of the change of a network's gene.
      prior_noise: standard deviation of the change of a prior, and of a temperature's logarithm.
    """

    individuals: int = 20
    chromosomes: float = 0.2
    elites: float = 0.2
    rivals: int = 3
    mutation: float = 0.9
    genes: float = 0.1
    noise: float = 0.1
    prior_noise: float = 1.0


class Population:
    """The individuals.

    Attributes:
      networks: `[G, D]` float32.
      prior: `[C, K, H]`.
      temperature: `[C, K]`.
    """

    def __init__(
        self,
        networks: NDArray[np.float32],
        tensors: int,
        homes: int,
        config: EvolutionConfig,
        generator: np.random.Generator,
    ) -> None:
        """Begins with `networks` and with random chromosomes."""
        self.config = config
        count = config.individuals - len(networks)
        self.networks = networks
        self.prior: Genes = generator.standard_normal((count, tensors, homes))
        self.temperature: Genes = np.ones((count, tensors))

    @staticmethod
    def num_networks(config: EvolutionConfig) -> int:
        """Returns `G`."""
        return config.individuals - round(config.chromosomes * config.individuals)

    def __len__(self) -> int:
        return len(self.networks) + len(self.prior)

    def probabilities(self, posteriors: Genes) -> Genes:
        """Returns the probabilities `[P, K, H]` of all individuals, given those of the networks, `[G, K, H]`."""
        return np.concatenate([posteriors, boltzmann(self.prior, self.temperature)])

    def evolve(
        self, fitness: NDArray[np.float64], posteriors: Genes, generator: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Makes the next generation in place; returns `[P]` whether an individual was an elite and is unchanged.

        Args:
          fitness: `[P]`, more is better.
          posteriors: `[G, K, H]`, those of the current networks.
          generator: draws parents, crossings and mutations.
        """
        config, networks = self.config, len(self.networks)
        order = np.argsort(-fitness, kind="stable")
        elites = order[: max(1, round(config.elites * len(self)))]
        is_elite = np.zeros(len(self), bool)
        is_elite[elites] = True
        old = self.networks.copy(), self.prior.copy(), self.temperature.copy()
        for place in np.flatnonzero(~is_elite).tolist():
            mutates = generator.random() < config.mutation
            if place < networks:
                mother = self._partner(elites[elites < networks], fitness, range(networks), generator)
                father = self._tournament(fitness, range(networks), generator)
                child = cross(old[0][mother], old[0][father], generator)
                self.networks[place] = mutate(child, config.genes, config.noise, generator) if mutates else child
                continue
            mother = int(generator.choice(elites))
            father = self._tournament(fitness, range(networks, len(self)), generator) - networks
            if mother < networks:
                prior, temperature = seed_prior(posteriors[mother]), np.ones(old[2].shape[1])
            else:
                point = int(generator.integers(len(old[2][0]) + 1))
                prior, temperature = old[1][father].copy(), old[2][father].copy()
                prior[:point], temperature[:point] = (
                    old[1][mother - networks][:point],
                    old[2][mother - networks][:point],
                )
            if mutates:
                prior = mutate(prior, config.genes, config.prior_noise, generator)
                temperature = np.exp(mutate(np.log(temperature), config.genes, config.prior_noise, generator))
            self.prior[place - networks] = prior
            self.temperature[place - networks] = np.clip(temperature, _LEAST_TEMPERATURE, _MOST_TEMPERATURE)
        return is_elite

    def migrate(self, network: NDArray[np.float32], fitness: NDArray[np.float64], spared: NDArray[np.bool_]) -> int:
        """Replaces the weakest network that is not spared; returns its place, or -1 if all are spared."""
        count = len(self.networks)
        weakness = np.where(spared[:count], np.inf, fitness[:count])
        if not count or not np.isfinite(weakness).any():
            return -1
        place = int(np.argmin(weakness))
        self.networks[place] = network
        return place

    def _partner(
        self, elites: NDArray[np.int64], fitness: NDArray[np.float64], kind: range, generator: np.random.Generator
    ) -> int:
        """Returns one of the elites, or the winner of a tournament among a kind if there are none."""
        return int(generator.choice(elites)) if len(elites) else self._tournament(fitness, kind, generator)

    def _tournament(self, fitness: NDArray[np.float64], kind: range, generator: np.random.Generator) -> int:
        """Returns the fittest of a few random individuals of a kind."""
        rivals = generator.integers(kind.start, kind.stop, self.config.rivals)
        return int(rivals[np.argmax(fitness[rivals])])


def boltzmann(prior: Genes, temperature: Genes) -> Genes:
    """Returns probabilities `[..., K, H]`, the softmax of priors `[..., K, H]` over temperatures `[..., K]`."""
    heat = prior / temperature[..., None]
    weight = np.exp(heat - heat.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True)


def seed_prior(posterior: Genes) -> Genes:
    """Returns the prior of a chromosome that has the probabilities `[K, H]` of a network at temperature 1."""
    return np.log(np.maximum(posterior, _LEAST_PROBABILITY))


def cross(mother: np.ndarray, father: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Returns a child of two rows of genes: the mother's up to a random point, the father's from there on."""
    child = father.copy()
    point = int(generator.integers(len(child) + 1))
    child[:point] = mother[:point]
    return child


def mutate(genes: np.ndarray, share: float, noise: float, generator: np.random.Generator) -> np.ndarray:
    """Returns genes with Gaussian noise added to a share of them, at least to one."""
    touched = generator.random(genes.shape) < share
    touched.flat[int(generator.integers(touched.size))] = True
    return (genes + touched * noise * generator.standard_normal(genes.shape)).astype(genes.dtype)


def draw(probabilities: Genes, generator: np.random.Generator) -> NDArray[np.int64]:
    """Returns homes `[..., K]`, drawn from probabilities `[..., K, H]`."""
    edges = np.cumsum(probabilities, axis=-1)[..., :-1]
    return (generator.random(probabilities.shape[:-1])[..., None] >= edges).sum(-1).astype(np.int64)
