"""What the screen is made of. Each shows a part of the state and changes none of it."""
