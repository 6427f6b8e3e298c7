"""`affiant quote`: TDX quotes for people. Files in, tables and documents out."""
