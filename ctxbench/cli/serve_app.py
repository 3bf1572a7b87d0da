"""`ctxbench serve`, and `ctxbench data from-feedback`, which makes labels of feedback on served contexts."""
