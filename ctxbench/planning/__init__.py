"""What a request about code asks for, and how to look for it."""
