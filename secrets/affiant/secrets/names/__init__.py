"""References to secrets, their values as a type that never prints, and errors."""
