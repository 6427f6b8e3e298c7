"""Signs and parses receipts, chains them, and seals their disclosures."""
