"""A model split into stages that train it together."""
