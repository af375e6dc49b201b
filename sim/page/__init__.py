"""The report of a run: one HTML file that holds everything."""
