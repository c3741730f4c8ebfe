"""The rules of the way out, by table and by random input."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodyd.desktop.egress_rules import Denied, EgressRules, Local, Remote, address_allowed
from bodyd.errors import ConfigError

RULES = EgressRules.parse(
    allow=("example.org", "*.example.net", "api.example.com:8443"),
    local={"site.bodyd.test:80": "/run/site.sock"},
    quiet=("*.gvt1.com",),
)


@pytest.mark.parametrize(
    ("host", "port", "verdict"),
    [
        (b"example.org", b"443", Remote("example.org", 443)),
        (b"EXAMPLE.org", b"80", Remote("example.org", 80)),
        (b"a.b.example.net", b"443", Remote("a.b.example.net", 443)),
        (b"api.example.com", b"8443", Remote("api.example.com", 8443)),
        (b"site.bodyd.test", b"80", Local("site.bodyd.test", 80, "/run/site.sock")),
    ],
)
def test_what_is_named_is_allowed(host, port, verdict):
    """Exact names, wildcards below a name, a stated port, and a local mapping each lead where they say."""
    assert RULES.judge(host, port) == verdict


@pytest.mark.parametrize(
    ("host", "port"),
    [
        (b"www.example.org", b"443"),
        (b"example.net", b"443"),
        (b"notexample.net", b"443"),
        (b"example.org.evil.test", b"443"),
        (b"example.org", b"22"),
        (b"example.org", b"8443"),
        (b"api.example.com", b"443"),
        (b"site.bodyd.test", b"443"),
        (b"other.test", b"443"),
    ],
)
def test_what_is_not_named_is_denied(host, port):
    """Neighbours of an allowed name, other ports and unknown names are denied by default."""
    assert isinstance(RULES.judge(host, port), Denied)
    assert isinstance(EgressRules().judge(host, port), Denied)


@pytest.mark.parametrize(
    "host",
    [
        b"127.0.0.1",
        b"2130706433",
        b"0x7f000001",
        b"0177.0.0.1",
        b"127.1",
        b"1.2.3.0x4",
        b"[::1]",
        b"::1",
        b"example.org.",
        b".example.org",
        b"example..org",
        b"user@example.org",
        b"example.org@127.0.0.1",
        b"example.org\x00.evil.test",
        b"example.org%00",
        b"example.org/",
        b"example.org:80",
        b"ex ample.org",
        b"localhost",
        b"",
        b"-a.example.net",
        b"a" * 64 + b".example.net",
        b"\xc3\xa4.example.net",
        b"*.example.net",
        b".".join([b"a" * 60] * 5) + b".example.net",
    ],
)
def test_what_is_not_a_plain_name_is_denied(host):
    """No form of an address, no user part, no trailing dot, no odd byte gets past the expression."""
    for rules in (RULES, EgressRules.parse(allow=("*.example.net", "*.0x4.test"))):
        assert isinstance(rules.judge(host, b"80"), Denied)


@pytest.mark.parametrize("port", [b"", b"0", b"080", b"65536", b"-1", b"80 ", b"8o", b"+80"])
def test_what_is_not_a_port_is_denied(port):
    """A port is 1 to 65535 in plain digits."""
    assert isinstance(RULES.judge(b"example.org", port), Denied)


def test_quiet_names_are_denied_quietly():
    """A quiet name is denied like any other, and marked."""
    verdict = RULES.judge(b"r1.gvt1.com", b"443")
    assert verdict == Denied("not on the list", "r1.gvt1.com", quiet=True)


@given(st.binary(max_size=80), st.binary(max_size=6))
def test_random_bytes_are_never_allowed(host, port):
    """Nothing but the named ones is allowed, and what a denial shows is printable ASCII."""
    verdict = RULES.judge(host, port)
    if isinstance(verdict, Denied):
        assert verdict.host.isascii()
        assert verdict.host.isprintable()
    else:
        assert host.lower() in (
            b"example.org",
            b"api.example.com",
            b"site.bodyd.test",
        ) or host.lower().endswith(b".example.net")


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("allow", "127.0.0.1"),
        ("allow", "*"),
        ("allow", "*.*.org"),
        ("allow", "com"),
        ("allow", "*.com"),
        ("allow", "https://example.org"),
        ("allow", "example.org:"),
        ("allow", "example.org:http"),
        ("allow", "example.org/path"),
        ("allow", "exämple.org"),
        ("allow", ""),
        ("quiet", "*.*"),
    ],
)
def test_a_misspelt_entry_refuses_the_start(section, entry):
    """An entry that is not exactly a rule is an error that names it, never a guess."""
    with pytest.raises(ConfigError, match="egress"):
        EgressRules.parse(**{section: (entry,)})


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("site.test", "/s"),
        ("site.test:80", "s"),
        ("site.test:80", "/a/../b"),
        ("127.0.0.1:80", "/s"),
        ("*.site.test:80", "/s"),
    ],
)
def test_a_misspelt_mapping_refuses_the_start(name, path):
    """A local mapping is one exact name and port, and an absolute path."""
    with pytest.raises(ConfigError, match="egress"):
        EgressRules.parse(local={name: path})


@pytest.mark.parametrize(
    "address",
    """
    127.0.0.1 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.1 192.0.2.1
    192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    ::1 :: ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b:1::1 100::1 2002:7f00:1:: 2001::1
    2001:db8::1 fc00::1 fd00::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 3fff::1 5f00::1 nonsense 127.1
    """.split(),
)
def test_special_addresses_are_never_dialled(address):
    """Private, loopback, link-local, shared, reserved, multicast and translated ranges are refused."""
    assert not address_allowed(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001::200e"])
def test_public_addresses_may_be_dialled(address):
    """Ordinary public unicast passes."""
    assert address_allowed(address)


@given(st.ip_addresses())
def test_no_address_of_a_special_kind_passes(address):
    """Whatever passes is public unicast by the standard library's judgement too, and embeds no IPv4."""
    if address_allowed(str(address)):
        assert address.is_global
        assert not address.is_multicast
        if isinstance(address, ipaddress.IPv6Address):
            assert address.ipv4_mapped is None
            assert address.sixtofour is None
            assert address.teredo is None
