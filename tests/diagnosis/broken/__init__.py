"""Launches on the lab that are broken on purpose, and the complete logs they leave.

``python -m tests.diagnosis.broken [NAME...]`` runs them anew and writes ``tests/data/broken/NAME``.
"""
