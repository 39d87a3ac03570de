"""The README's pictures, and what makes them."""
