"""What the policy learns from more programs."""
