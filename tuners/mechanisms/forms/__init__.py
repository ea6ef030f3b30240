"""A trained model in another form: exported, compiled ahead of time, or with weights of 8 bits."""
