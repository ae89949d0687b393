"""What `solve` gains from several cores: workers together, and apart."""
