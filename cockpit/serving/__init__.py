"""vLLM: command line and checks, launch and stop, load progress, the API."""
