"""torch.profiler's files: bytes, columns, facts."""
