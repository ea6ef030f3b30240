"""Taps on what a step consists of and where its time goes."""
