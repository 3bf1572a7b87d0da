"""The front door for notebooks and programs: datasets as frames, results as objects; `ctxbench` offers them."""
