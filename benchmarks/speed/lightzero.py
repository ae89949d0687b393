"""LightZero's Gumbel MuZero search, as its collector runs it, with no environment. Run it with its own interpreter:

    python benchmarks/speed/lightzero.py OBSERVATION ACTIONS WIDTH GAMES SIMULATIONS SECONDS

Prints moves per processor second, the best of all searches, and the parameters of its network, a multi-layer one of the
given width. It imports nothing of this package.
"""

import json
import sys
import time
import warnings

import numpy as np
import torch
from easydict import EasyDict
from lzero.mcts.tree_search.mcts_ctree import GumbelMuZeroMCTSCtree
from lzero.model.muzero_model_mlp import MuZeroModelMLP
from lzero.policy.utils import mz_network_output_unpack

_SUPPORT = 25


def main() -> None:
    """Measures."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    size, actions, width, games, simulations, seconds = (int(number) for number in sys.argv[1:])
    heads = {f"{head}_head_hidden_channels": [width] for head in ("reward", "value", "policy")}
    supports = {f"{head}_support_size": 2 * _SUPPORT + 1 for head in ("reward", "value")}
    model = MuZeroModelMLP(size, actions, width, last_linear_layer_init_zero=False, **heads, **supports)
    model.eval()
    tree = GumbelMuZeroMCTSCtree(
        EasyDict(
            num_simulations=simulations,
            device="cpu",
            discount_factor=1.0,
            pb_c_base=19652,
            pb_c_init=1.25,
            max_num_considered_actions=actions,
            env_type="not_board_games",
            model={"support_scale": _SUPPORT, "categorical_distribution": True},
        )
    )
    rng = np.random.default_rng(0)
    observations = torch.from_numpy(rng.random((games, size), np.float32))
    players = [-1] * games

    def move() -> None:
        with torch.no_grad():
            latent, _, value, logits = mz_network_output_unpack(model.initial_inference(observations))
            values = tree.inverse_scalar_transform_handle(value).numpy()
            noises = rng.dirichlet([0.3] * actions, games).astype(np.float32).tolist()
            roots = GumbelMuZeroMCTSCtree.roots(games, [list(range(actions))] * games)
            roots.prepare(0.25, noises, [0.0] * games, list(values), logits.numpy().tolist(), players)
            tree.search(roots, model, latent.numpy(), players)
            roots.get_distributions()

    move()
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.process_time()
        move()
        best = min(best, time.process_time() - began)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(json.dumps({"moves_per_s": games / best, "parameters": parameters}))


if __name__ == "__main__":
    main()
