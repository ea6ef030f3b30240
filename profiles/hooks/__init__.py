"""How a torch process is observed from inside, through torch's public extension points."""
