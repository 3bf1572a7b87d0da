"""`python -m ctxbench` is `ctxbench`."""

from ctxbench.cli.app import main

if __name__ == "__main__":
    main()
