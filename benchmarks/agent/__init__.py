"""The agent against its targets and with less fast memory, for docs/results/earlier-agent.md."""
