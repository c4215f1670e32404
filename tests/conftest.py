"""What every test runs under: one thread per library, no network, no window, the same examples every time."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Before numpy is imported by anyone: two xdist workers must not start four threads each.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

# `HYPOTHESIS_PROFILE=explore pytest` draws new examples; the default is the same on every machine.
quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("same", deadline=None, derandomize=True, database=None, print_blob=True, suppress_health_check=quiet)
settings.register_profile("explore", deadline=None, database=None, print_blob=True, max_examples=500, suppress_health_check=quiet)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def is_local(address: Any) -> bool:
    """True for Unix sockets and loopback addresses."""
    if not isinstance(address, tuple):
        return True
    if address[0] in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """The suite promises to need no network: any connection that leaves the machine fails its test."""
    original = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex")}

    def guarded(name: str) -> Any:
        def connect(self: socket.socket, address: Any) -> Any:
            # Connecting a datagram socket sends nothing: dask does it to learn its own address.
            if self.type != socket.SOCK_DGRAM and not is_local(address):
                raise AssertionError(f"A test tried to reach {address!r}; tests must not use the network.")
            return original[name](self, address)

        return connect

    with pytest.MonkeyPatch.context() as patch:
        for name in original:
            patch.setattr(socket.socket, name, guarded(name))
        yield


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where everything is installed (TAMIS_SKIP_NOTHING=1, as in .ci/run), a skipped test is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("TAMIS_SKIP_NOTHING") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
