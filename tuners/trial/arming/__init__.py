"""The folder that stands on ``PYTHONPATH`` of a launcher's command; Python itself finds what is in it."""
