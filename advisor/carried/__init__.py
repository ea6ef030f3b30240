"""Objects of training frameworks as arguments of a workload.

Each module imports its framework; nothing here is imported before it is used.
"""
