"""The gateway's settings."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bodyd.contract.gateway import GatewaySettings


@pytest.mark.parametrize("kind", ["responses", "chat"])
def test_a_server_upstream_needs_a_url(kind):
    """A kind that is reached over HTTP says where; the start is refused otherwise."""
    with pytest.raises(ValidationError, match="needs a url"):
        GatewaySettings.model_validate({"upstream": {"kind": kind}})
    settings = GatewaySettings.model_validate({"upstream": {"kind": kind, "url": "http://127.0.0.1:1/v1"}})
    assert settings.upstream.kind == kind


def test_none_is_the_default():
    """Without an upstream there is no gateway."""
    assert GatewaySettings().upstream.kind == "none"
