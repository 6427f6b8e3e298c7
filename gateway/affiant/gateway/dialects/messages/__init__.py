"""Messages, as Anthropic's clients and compatible servers speak them. Sans-IO."""
