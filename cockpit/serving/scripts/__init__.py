"""Python scripts that hosts run, fed on standard input; the cockpit reads them as text."""
