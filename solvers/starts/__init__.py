"""Plans to start a search from: stays chosen by knapsacks and prices, greedy rules, and mappings that are followed."""
