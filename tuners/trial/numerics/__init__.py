"""The numerics check in the child: its state kept, the same batches run again, outputs compared."""
