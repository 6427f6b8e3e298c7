"""The commands of this package. Each reads its arguments and files and prints; the work is below."""
