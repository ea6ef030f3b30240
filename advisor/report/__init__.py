"""A result as pages, text, Markdown and SARIF."""
