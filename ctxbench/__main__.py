"""Entry point of `ctxbench` and `python -m ctxbench`; Ctrl-C ends it cleanly, also during imports."""

from os import _exit, write

TYPE_CHECKING = False  # `typing` takes a while to import
if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run `ctxbench`, as `ctxbench.cli.app.main` says."""
    try:
        import signal  # all imports stand inside: each takes time in which Ctrl-C may come

        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, or another's
        if ours:
            signal.signal(signal.SIGINT, _stopped)  # what is raised in the midst of an import may be lost there
        from ctxbench.cli.app import main as run
        from ctxbench.io.console import catch_signals

        catch_signals()
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            _run(run)
        finally:  # CPython remembers a Ctrl-C inside an `exec` of text, and would end by the signal, not with our code
            exec("")  # noqa: S102 - the next one makes it forget
    except KeyboardInterrupt:
        _stopped()


def _run(run: "Callable[[], None]") -> None:
    """Run it; where code of others ran as well, they do not change how it ends."""
    import sys

    try:
        run()
    finally:
        foreign = sys.modules.get("ctxbench.selectors.callable")
        if foreign is not None:
            foreign.leave()


def _stopped(*_: object) -> None:
    """End at once: nothing was begun, or all is done."""
    import sys
    from contextlib import suppress

    exit_code = getattr(sys.modules.get("ctxbench.io.console"), "exit_code", None)
    code = 130 if exit_code is None else exit_code()
    with suppress(OSError):  # the terminal is gone
        write(2, b"stopped: nothing is half-written\n")
    _exit(code)


if __name__ == "__main__":
    main()
