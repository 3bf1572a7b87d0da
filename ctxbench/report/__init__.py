"""Views of a run: tables for the console, one HTML page."""
