"""What a run is made of: baseline, diagnosis, batch size, numerics, confirmation."""
