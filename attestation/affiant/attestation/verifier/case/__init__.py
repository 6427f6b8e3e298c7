"""What the verification of one bundle works on, and what earlier checks established."""
