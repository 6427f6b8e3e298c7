"""Responses, as OpenAI's clients and compatible servers speak them. Sans-IO."""
