"""Evolution: survival of elites, inheritance, and chromosomes seeded from networks."""

import numpy as np
import pytest

from mallocmuzero.solvers.egrl.population import EvolutionConfig, Population, boltzmann, cross, draw, mutate, seed_prior

TENSORS, HOMES, GENES = 6, 3, 40


def population(seed: int = 0, **settings: float) -> tuple[Population, np.ndarray, np.random.Generator]:
    generator = np.random.default_rng(seed)
    config = EvolutionConfig(individuals=10, chromosomes=0.4, **settings)  # type: ignore[arg-type]
    networks = generator.standard_normal((Population.num_networks(config), GENES)).astype(np.float32)
    posteriors = generator.dirichlet(np.ones(HOMES), (len(networks), TENSORS))
    return Population(networks, TENSORS, HOMES, config, generator), posteriors, generator


def test_sizes() -> None:
    some, posteriors, _ = population()
    assert len(some) == 10
    assert (len(some.networks), len(some.prior)) == (6, 4)
    probabilities = some.probabilities(posteriors)
    assert probabilities.shape == (10, TENSORS, HOMES)
    np.testing.assert_allclose(probabilities.sum(-1), 1.0)
    np.testing.assert_array_equal(probabilities[:6], posteriors)


def test_a_seeded_chromosome_reproduces_the_networks_posterior() -> None:
    posterior = np.random.default_rng(1).dirichlet(np.ones(HOMES), TENSORS)
    np.testing.assert_allclose(boltzmann(seed_prior(posterior), np.ones(TENSORS)), posterior, atol=1e-3)
    certain = np.eye(HOMES)[np.arange(TENSORS) % HOMES]
    again = boltzmann(seed_prior(certain), np.ones(TENSORS))
    assert (again > 0).all()
    np.testing.assert_allclose(again, certain, atol=1e-3)


def test_evolution_seeds_chromosomes_from_networks_that_lead() -> None:
    some, posteriors, generator = population(mutation=0.0)
    fitness = np.array([9.0, 8.0, 0, 0, 0, 0, 1, 2, 3, 4])  # both elites are networks
    some.evolve(fitness, posteriors, generator)
    probabilities = some.probabilities(posteriors)[6:]
    for chromosome in probabilities:
        assert any(np.allclose(chromosome, posteriors[elite], atol=1e-3) for elite in (0, 1))


def test_temperature_makes_even_or_certain() -> None:
    prior = np.random.default_rng(2).standard_normal((TENSORS, HOMES))
    np.testing.assert_allclose(boltzmann(prior, np.full(TENSORS, 1e6)), 1 / HOMES, atol=1e-4)
    cold = boltzmann(prior, np.full(TENSORS, 1e-3))
    np.testing.assert_array_equal(cold.argmax(-1), prior.argmax(-1))
    assert cold.max(-1).min() > 0.99


def test_a_child_has_its_parents_genes_and_no_others() -> None:
    generator = np.random.default_rng(3)
    mother, father = np.arange(GENES, dtype=np.float32), -1.0 - np.arange(GENES, dtype=np.float32)
    points = set()
    for _ in range(300):
        child = cross(mother, father, generator)
        point = int((child == mother).sum())
        np.testing.assert_array_equal(child[:point], mother[:point])
        np.testing.assert_array_equal(child[point:], father[point:])
        points.add(point)
    assert min(points) == 0
    assert max(points) == GENES
    assert len(points) > GENES / 2


def test_mutation_touches_a_share_of_the_genes() -> None:
    generator, genes = np.random.default_rng(4), np.zeros(20_000, np.float32)
    changed = mutate(genes, 0.1, 0.5, generator)
    assert changed.dtype == genes.dtype
    assert not genes.any()
    assert (changed != 0).mean() == pytest.approx(0.1, abs=0.01)
    assert changed[changed != 0].std() == pytest.approx(0.5, abs=0.03)
    assert (mutate(np.zeros(5), 0.0, 1.0, generator) != 0).sum() == 1


def test_elites_never_get_worse_and_all_others_are_children() -> None:
    some, posteriors, generator = population(elites=0.3, mutation=1.0)
    for _ in range(20):
        # Fitness here is a function of the genes, so an elite's cannot change unless it does.
        fitness = np.concatenate([-np.abs(some.networks).sum(1), -np.abs(some.prior).sum((1, 2))])
        before = some.networks.copy(), some.prior.copy()
        spared = some.evolve(fitness, posteriors, generator)
        assert spared.sum() == 3
        assert fitness[spared].min() >= fitness[~spared].max()
        np.testing.assert_array_equal(some.networks[spared[:6]], before[0][spared[:6]])
        np.testing.assert_array_equal(some.prior[spared[6:]], before[1][spared[6:]])
        assert (some.networks[~spared[:6]] != before[0][~spared[:6]]).any(axis=1).all()
        after = np.concatenate([-np.abs(some.networks).sum(1), -np.abs(some.prior).sum((1, 2))])
        assert after.max() >= fitness.max()


def test_evolution_climbs() -> None:
    some, posteriors, generator = population(noise=0.3)
    wanted = np.linspace(-1, 1, GENES)

    def fitness() -> np.ndarray:
        return np.concatenate([-((some.networks - wanted) ** 2).sum(1), np.full(4, -1e9)])

    before = fitness().max()
    for _ in range(200):
        some.evolve(fitness(), posteriors, generator)
    assert fitness().max() > 0.3 * before


def test_the_gradient_policy_takes_the_place_of_the_weakest_network() -> None:
    some, _, _ = population()
    fitness = np.array([5.0, 1.0, 4, 3, 2, 9, 0, 0, 0, 0])
    spared = np.zeros(10, bool)
    newcomer = np.full(GENES, 7.0, np.float32)
    assert some.migrate(newcomer, fitness, spared) == 1
    np.testing.assert_array_equal(some.networks[1], newcomer)
    spared[:6] = True
    before = some.networks.copy()
    assert some.migrate(newcomer, fitness, spared) == -1
    np.testing.assert_array_equal(some.networks, before)


def test_draws_follow_their_probabilities() -> None:
    probabilities = np.broadcast_to(np.array([0.2, 0.5, 0.3]), (20_000, HOMES))
    shares = np.bincount(draw(probabilities, np.random.default_rng(5)), minlength=HOMES) / 20_000
    np.testing.assert_allclose(shares, [0.2, 0.5, 0.3], atol=0.02)
    certain = np.eye(HOMES)[[2, 0, 1]]
    np.testing.assert_array_equal(draw(certain, np.random.default_rng(6)), [2, 0, 1])
