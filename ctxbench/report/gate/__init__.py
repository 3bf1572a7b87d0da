"""What a check found, told: on the console, as Markdown, annotations, JUnit XML and JSON. Import what is needed."""
