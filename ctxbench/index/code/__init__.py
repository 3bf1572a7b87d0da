"""What a source file says of itself: its language, definitions, imports, and the names it uses."""
