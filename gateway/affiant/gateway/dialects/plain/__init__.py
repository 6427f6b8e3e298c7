"""Dialects without tools: text completions, embeddings, rerank, moderations. Sans-IO."""
