"""The documents that quotes bind: manifest, gateway configuration, key statements, evidence records, results."""
