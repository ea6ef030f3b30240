"""What a program that answers requests does beside them, and what its models consist of."""
