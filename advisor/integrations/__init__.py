"""Callbacks that profile the loops of training frameworks.

Each module imports its framework; nothing here is imported before it is used.
"""
