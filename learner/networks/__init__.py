"""The MuZero networks as pure functions of their parameters."""
