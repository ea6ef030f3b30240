"""Frozen records: what the machine is and what a run did."""
