"""Two configurations side by side: measured, compared, judged."""
