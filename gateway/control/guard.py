"""Guard: checks that a request may use the control surface, before any handler runs and whatever the path is.

1. The peer: on a Unix socket it must run as the server's own user, if the system reports the user.
2. ``Host`` must name this machine, and ``Origin`` must be absent: a web page can reach loopback, but cannot forge
   these headers.
3. The secret of the runfile, compared in constant time.
"""

import hmac
import os
import socket
import struct
import sys
from asyncio import BaseTransport
from collections.abc import Mapping

from gateway.domain.errors import InvalidToken, RequestRefused
from gateway.web.origins import LOOPBACK, split_host

_SCHEME = "bearer "


def check(headers: Mapping[str, str], transport: BaseTransport | None, secret: str, own_uid: int | None = None) -> None:
    """Check a request. Raises RequestRefused or InvalidToken. ``own_uid`` is what ``own_user`` returns."""
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None:
        raise RequestRefused("the connection is closing")
    peer = peer_uid(sock)
    if peer is not None and own_uid is not None and peer != own_uid:
        message = "this gateway belongs to another user of this machine; start your own"
        raise RequestRefused(message, code="foreign_user")
    _check_host(headers.get("Host", ""), sock)
    if "Origin" in headers:
        raise RequestRefused("web pages may not call the control surface", code="origin_not_allowed")
    check_secret(headers.get("Authorization", ""), secret)


def check_secret(header: str, secret: str) -> None:
    """Check that the Authorization header has the secret. Raises InvalidToken, also if the secret is empty."""
    secret_in_header = header[len(_SCHEME) :] if header[: len(_SCHEME)].lower() == _SCHEME else ""
    matches = hmac.compare_digest(secret_in_header.encode("utf-8", "surrogateescape"), secret.encode())
    if not matches or not secret:
        raise InvalidToken("the control secret is missing or wrong; it is in the runfile", code="invalid_secret")


def own_user() -> int | None:
    """Returns the user id of this server; None on systems without users."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def peer_uid(sock: socket.socket) -> int | None:
    """Returns the user id at the other end of a Unix socket; None for other sockets, or if it is not reported."""
    if os.name == "nt" or sock.family != socket.AF_UNIX:
        return None
    try:
        if sys.platform == "linux":  # unix(7), SO_PEERCRED: struct ucred {pid_t pid; uid_t uid; gid_t gid}
            uid = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        else:  # macOS and the BSDs, unix(4), LOCAL_PEERCRED: struct xucred {u_int version; uid_t uid; …} at level 0
            uid = struct.unpack_from("=II", sock.getsockopt(0, 1, 76))[1]
    except (OSError, struct.error):
        return None
    return int(uid)


def _check_host(header: str, sock: socket.socket) -> None:
    """Check the Host header: over TCP it must have the right port, on a Unix socket none. Raises RequestRefused."""
    port = "" if os.name != "nt" and sock.family == socket.AF_UNIX else str(sock.getsockname()[1])
    name, port_in_header = split_host(header)
    if name not in LOOPBACK or port_in_header != port:
        raise RequestRefused("the Host header does not name this machine's control surface", code="wrong_host")
