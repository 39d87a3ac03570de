"""Spark Cockpit: bring vLLM up on two NVIDIA DGX Sparks, and see why when it does not come up."""
