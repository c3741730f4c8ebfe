"""What an adapter is given of a request."""

from bodyd.contract.adapters import HttpRequest
from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller


def test_the_last_of_several_values_counts():
    """As with every other server; what is not there is None."""
    request = HttpRequest("GET", "/", {}, {"after": ("1", "2")}, {}, b"", Caller("someone", Scope.DRIVER))
    assert request.one("after") == "2"
    assert request.one("before") is None
