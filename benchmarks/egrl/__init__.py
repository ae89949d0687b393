"""The methods of the EGRL paper at equal numbers of games, for docs/results/egrl.md."""
