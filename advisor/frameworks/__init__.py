"""Callbacks that profile the loops of training frameworks."""
