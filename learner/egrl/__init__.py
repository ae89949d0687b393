"""The gradient half of evolutionary graph reinforcement learning: graph networks and a discrete soft actor-critic."""
