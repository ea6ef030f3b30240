"""One file per thing that a user starts: tune, profile, check, verify, doctor."""
