"""Turns what a command reports into text: for terminals, Markdown, DOT, Mermaid, SARIF, JUnit."""
