"""A verdict as text, HTML, SARIF, JUnit XML and CSV."""
