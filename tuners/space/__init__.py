"""What may be tried: knobs, machine, facts and constraints."""
