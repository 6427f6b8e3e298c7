"""The checks of one bundle, in their order."""
