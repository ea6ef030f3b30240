"""How a transformer is laid out over ranks (tensor, pipeline, data), and which layout would be fastest."""
