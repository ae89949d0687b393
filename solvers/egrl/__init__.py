"""Evolutionary graph reinforcement learning (Khadka et al., arXiv 2007.07298): the acting half, and its baselines."""
