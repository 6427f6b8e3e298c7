"""Collects a quote of this machine's own TD from the evidence provider it has."""
