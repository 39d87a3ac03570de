"""Tests of cockpit.bringup."""
