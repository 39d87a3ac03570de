"""Tests of cockpit.model."""
