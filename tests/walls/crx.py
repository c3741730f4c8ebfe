"""A signed extension in the form that Chromium installs (CRX3: a protobuf header before a ZIP)."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any


def pack(place: Path, manifest: dict[str, Any]) -> tuple[str, bytes]:
    """The extension's id and its file, signed with a key made in *place*."""
    key = place / "key.pem"
    _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(key))
    public = _openssl("pkey", "-in", str(key), "-pubout", "-outform", "DER")
    identity = hashlib.sha256(public).digest()[:16]
    signed = _field(1, identity)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
    what = b"CRX3 SignedData\0" + len(signed).to_bytes(4, "little") + signed + content.getvalue()
    signature = _openssl("dgst", "-sha256", "-sign", str(key), given=what)
    header = _field(2, _field(1, public) + _field(2, signature)) + _field(10000, signed)
    letters = "".join(chr(ord("a") + int(digit, 16)) for digit in identity.hex())
    prefix = b"Cr24" + (3).to_bytes(4, "little") + len(header).to_bytes(4, "little")
    return letters, prefix + header + content.getvalue()


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited field of protobuf's wire format."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _openssl(*args: str, given: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *args], input=given, capture_output=True, check=True).stdout
