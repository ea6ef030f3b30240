"""What a device did in a trace: kernels, copies, collectives, and what it waited for."""
