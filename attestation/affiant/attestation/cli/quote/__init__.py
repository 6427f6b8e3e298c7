"""Implements `affiant quote`: it reads files and prints tables and documents about TDX quotes."""
