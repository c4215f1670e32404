"""A real PostgreSQL server for the tests: started in a temporary folder, reachable through a local socket only."""

from __future__ import annotations

import csv
import io
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

QUICK = "-c listen_addresses='' -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=8 -c shared_buffers=16MB"


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    psql: Path
    folder: Path
    port: int
    account: dict[str, Any]

    def run(self, script: str) -> str:
        """What psql prints for a script; its first error fails the test."""
        command = [
            str(self.psql),
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            str(self.folder),
            "-p",
            str(self.port),
            "-U",
            "tamis",
            "-d",
            "postgres",
        ]
        done = subprocess.run(
            command, input=script.encode(), capture_output=True, check=False, timeout=120, cwd=self.folder, **self.account
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")[:2000]
        return done.stdout.decode()

    def load(self, table: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> None:
        """Create a table of (name, type) columns and fill it; None is NULL."""
        listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)
        lines = "".join(",".join(map(_cell, row)) + "\n" for row in rows)
        create = f"DROP TABLE IF EXISTS {quoted(table)};\nCREATE TABLE {quoted(table)} ({listed});\n"
        self.run(f"{create}COPY {quoted(table)} FROM STDIN WITH (FORMAT csv);\n{lines}\\.\n")

    def select(self, query: str) -> list[dict[str, str]]:
        """The rows of a query, as text."""
        return list(csv.DictReader(io.StringIO(self.run(f"COPY ({query}) TO STDOUT WITH (FORMAT csv, HEADER);\n"), newline="")))


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _cell(value: object) -> str:
    """One CSV cell: NULL is empty, an empty text is quoted."""
    return "" if value is None else '"' + str(value).replace('"', '""') + '"'


def _programs() -> Path | None:
    """The folder of the server's programs, newest version first."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]), reverse=True)
    on_path = shutil.which("initdb")
    candidates = [*found, *([Path(on_path).resolve()] if on_path else [])]
    return next((path.parent for path in candidates if (path.parent / "pg_ctl").exists()), None)


def _unprivileged_account() -> dict[str, Any]:
    """The server refuses to run as root; tests run by root lend it another account."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return pytest.skip("There is no account other than root that PostgreSQL could run under, so the SQL was not tried in it.")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server for one test module, stopped and removed at its end."""
    programs, psql = _programs(), shutil.which("psql")
    if programs is None or psql is None:
        pytest.skip("PostgreSQL is not installed here, so the SQL was not tried in it; install the package postgresql.")
    account = _unprivileged_account()
    folder = Path(tempfile.mkdtemp(prefix="tamis-pg-"))
    port = 20_000 + secrets.randbelow(40_000)  # only names the socket file: the server listens on no network
    if account:
        os.chown(folder, account["user"], account["group"])
    data = folder / "data"

    def call(program: str, *options: str) -> None:
        log = folder / f"{program}.log"
        with log.open("ab") as sink:
            done = subprocess.run(
                [str(programs / program), *options],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                check=False,
                timeout=120,
                cwd=folder,
                **account,
            )
        assert done.returncode == 0, log.read_text(errors="replace")[-2000:]

    try:
        call("initdb", "-D", str(data), "-U", "tamis", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        call("pg_ctl", "start", "-w", "-D", str(data), "-l", str(folder / "server.log"), "-o", f"{QUICK} -k {folder} -p {port}")
        try:
            yield Postgres(Path(psql), folder, port, account)
        finally:
            call("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(data))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
