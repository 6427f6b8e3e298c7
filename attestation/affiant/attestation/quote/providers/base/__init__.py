"""What all evidence providers share: errors, and the check of a quote that was returned."""
