"""APIs for models: strict JSON, closed lists, event streams, calls of tools. Sans-IO."""
