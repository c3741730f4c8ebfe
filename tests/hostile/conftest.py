"""The same server as in tests/http: a fake body behind the real app on real sockets."""

from tests.http.conftest import bearer, body, bound, client, services

__all__ = ["bearer", "body", "bound", "client", "services"]
