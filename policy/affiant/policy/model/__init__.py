"""Values of a profile: rules, limits, argument patterns, shares."""
