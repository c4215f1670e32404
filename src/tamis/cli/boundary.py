"""Where the program meets its user: exit codes, and every failure as one sentence instead of a traceback."""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import typer

from tamis.core.errors import TamisError, TamisWarning

OK, USER_ERROR, NOT_CERTIFIED, INTERRUPTED = 0, 1, 2, 130
WrongUsage: Any = typer.BadParameter.__mro__[2]  # the parser's own errors, whichever parser this version of typer brings
DEBUG = "TAMIS_DEBUG"


def run(command: Callable[[], Any], leaving: bool = False) -> int:
    """Run a command and turn whatever happens into an exit code, saying it in one sentence on stderr.

    `leaving` says that the process ends after this, so that further Ctrl-C cannot disturb its last words.
    """
    warnings.showwarning = _as_note
    try:
        code = command()
        if code == INTERRUPTED:  # some versions of the parser turn Ctrl-C into this
            raise KeyboardInterrupt
        sys.stdout.flush()
    except typer.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        if leaving:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        say("Interrupted; files asked for and not yet announced were not written.")
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has left (the parser turns that into an exit): nothing more to say, and no complaint at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return OK
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        say(sentence(error))
        return USER_ERROR
    return code if isinstance(code, int) else OK


def sentence(error: Exception) -> str:
    """What went wrong, what follows, and what to do next, on one line."""
    said = " ".join(str(error).split())
    if isinstance(error, WrongUsage):
        return _usage(error)
    if isinstance(error, TamisError):
        return said
    if isinstance(error, OSError):
        return _system(error, said)
    if isinstance(error, MemoryError):
        return "The data does not fit into memory; leave columns out (--drop), lower --n-cuts, or use a machine with more memory."
    if isinstance(error, ValueError):  # scikit-learn's checks and ours: made for users, but not always one sentence
        return said if said.endswith((".", "?", "!")) else f"{said}."
    return f"Something went wrong inside tamis ({type(error).__name__}: {said}); set {DEBUG}=1 to see where, and please report it."


def _usage(error: Any) -> str:
    """A mistyped command line: the parser's words, and where the right ones are."""
    said = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{said}; see: {context.command_path if context else 'tamis'} --help"


def _system(error: OSError, said: str) -> str:
    """What the operating system refused, and what usually helps."""
    where = f"'{error.filename}'" if error.filename else "A file"
    help_with = {
        errno.ENOSPC: "the disk is full, so it was not written; make room or choose another folder",
        errno.EROFS: "the folder is read-only, so it was not written; choose another folder",
        errno.EACCES: "you may not read or write it; choose another file or folder",
        errno.ENOENT: "there is no such file or folder; check its name",
        errno.EISDIR: "it is a folder; name a file",
        errno.ENOTDIR: "part of its path is not a folder; check its name",
    }
    known = help_with.get(error.errno or 0)
    return f"{where} cannot be used: {known}." if known else f"{where} cannot be used ({said}); check it and try again."


def say(text: str) -> None:
    """One line on stderr, in red where colours are shown."""
    typer.secho(text, err=True, fg="red" if sys.stderr.isatty() else None)


def _as_note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Our own warnings are sentences for the user; those of libraries are for developers."""
    if issubclass(category, TamisWarning) or os.environ.get(DEBUG):
        typer.secho(f"Note: {' '.join(str(message).split())}", err=True, fg="yellow" if sys.stderr.isatty() else None)
