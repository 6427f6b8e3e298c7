"""Evidence providers of clouds: Azure's paravisor and dstack."""
