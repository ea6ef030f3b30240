"""The documents that runs leave: their fields, their schema, and the sentences that tell them."""
