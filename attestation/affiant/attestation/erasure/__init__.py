"""Signs and verifies orders to erase records and legal holds."""
