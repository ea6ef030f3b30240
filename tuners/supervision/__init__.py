"""Processes watched from outside: deadlines, logs, isolation, and why one ended."""
