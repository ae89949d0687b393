"""The choice of the portfolio's rules."""
