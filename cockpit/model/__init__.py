"""What is declared and what is observed: frozen, typed records without I/O."""
