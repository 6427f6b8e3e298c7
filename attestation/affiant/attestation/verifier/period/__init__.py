"""``affiant verify`` of a period bundle: the rules of single bundles, over as many records as there are."""
