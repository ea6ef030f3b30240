"""Findings: what they are, the contract of a rule, and every rule over one profile."""
