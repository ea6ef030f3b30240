"""What one run of the program as it stands tells: its profile, its findings, what they ask for."""
