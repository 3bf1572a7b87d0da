"""Reports of a check: console, Markdown, annotations, JUnit XML and JSON. Import what is needed."""
