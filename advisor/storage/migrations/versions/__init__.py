"""One file for each step, ``NNNN_what_it_does.py``, in an unbroken row."""
