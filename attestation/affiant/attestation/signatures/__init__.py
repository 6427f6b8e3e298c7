"""Signs and verifies statements: who signed what, under which key or identity, and when."""
