"""The bring-up: steps with check, plan, run and undo, and the runner that takes them in order."""
