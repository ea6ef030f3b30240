"""A program's source as a tree, and the contract of what edits it."""
