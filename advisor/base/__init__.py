"""What everyone may use and nothing below needs: errors, settings, durations, registries, signals."""
