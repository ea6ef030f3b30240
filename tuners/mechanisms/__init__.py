"""How the effect of a knob or strategy is brought about."""
