"""The tuner's side of a trial: processes started, commanded and awaited."""
