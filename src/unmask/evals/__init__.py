"""Measuring: problems with checkable answers, and speed at the quality it was had at."""
