"""Defines the documents that quotes bind: manifest, gateway configuration, key statements, evidence and results."""
