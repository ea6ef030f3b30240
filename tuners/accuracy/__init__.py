"""May the outputs of a changed model be taken for those of the original?"""
