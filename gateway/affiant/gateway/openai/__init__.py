"""OpenAI's chat completions: strict JSON, event streams, tool calls, model fallbacks. Sans-IO."""
