"""`POST /v1/chat/completions`, from the first byte to the receipt."""
