"""The normal form: one sequence of bytes for one meaning, and the digest that sessions are bound to."""
