"""Networks, targets, loss, training state, update step and checkpoints: everything that learns."""
