"""Solvers that change a plan stay by stay, in the order that a network proposes."""
