"""The functions and classes that `import ctxbench` offers."""
