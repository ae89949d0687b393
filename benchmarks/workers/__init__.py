"""What several cores are worth to `solve`: workers together, and apart."""
