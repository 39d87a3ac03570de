"""Tests of cockpit.probes."""
