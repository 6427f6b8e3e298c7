"""Reading a transparency log: from a folder or over HTTP, everything bound to a signed checkpoint before it is used."""
