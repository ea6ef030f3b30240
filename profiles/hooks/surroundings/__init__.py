"""Taps on what surrounds training: process, memory, files, logs, trackers."""
