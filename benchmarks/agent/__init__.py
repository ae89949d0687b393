"""The agent against its targets and with less fast memory, for docs/agent-results.md."""
