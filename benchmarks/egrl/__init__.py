"""The methods of the EGRL paper at equal numbers of games, for docs/egrl.md."""
