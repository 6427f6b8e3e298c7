"""What a profile says, as values: rules, limits, argument patterns, shares."""
