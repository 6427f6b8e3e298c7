"""Opens bundle files, and adds what their reader brings: newer collateral, disclosure keys."""
