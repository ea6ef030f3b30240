"""What follows from facts: demand, eligibility, disturbance, limits."""
