"""Names and brokers secrets: references, placeholders, stores, redaction."""
