"""Docker and native: turn a script into one that runs where vLLM lives."""
