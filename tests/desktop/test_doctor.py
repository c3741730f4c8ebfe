"""doctor: causes and fixes by table, what is printed, and a run on this machine."""

from __future__ import annotations

import json

import pytest

from bodyd.desktop import browser, doctor, isolation
from bodyd.desktop.remedies import Probe, System, explain, failed, install, render
from bodyd.errors import IsolationUnavailable

NO_NAMESPACE = "bwrap: No permissions to create new namespace, likely because the kernel does not allow"
NO_PROC = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"


def machine(*distribution, container=False, filtered=False, **sysctls):
    named = {k.replace("__", "."): v for k, v in sysctls.items()}
    return System(distribution or ("debian",), named, container, filtered)


@pytest.mark.parametrize(
    ("said", "system", "cause", "fix"),
    [
        (NO_PROC, machine(container=True), "/proc is masked", "systempaths=unconfined"),
        (NO_PROC, machine(container=True), "/proc is masked", "procMount: Unmasked"),
        (NO_NAMESPACE, machine(user__max_user_namespaces="0"), "set to none", "user.max_user_namespaces="),
        ("bwrap: No space left on device", machine(), "used up", "user.max_user_namespaces="),
        (NO_NAMESPACE, machine(kernel__unprivileged_userns_clone="0"), "switched off", "userns_clone=1"),
        (
            NO_NAMESPACE,
            machine("ubuntu", "debian", kernel__apparmor_restrict_unprivileged_userns="1"),
            "AppArmor",
            "/etc/apparmor.d/bwrap",
        ),
        ("bwrap: setting up uid map: Permission denied", machine(container=True), "seccomp", "seccomp="),
        (NO_NAMESPACE, machine(filtered=True), "seccomp", "unmasked /proc"),
        (NO_NAMESPACE, machine(), "the kernel refuses", "CONFIG_USER_NS"),
    ],
)
def test_each_refusal_has_its_cause_and_exact_fix(said, system, cause, fix):
    """bwrap's words and the machine's facts lead to the one cause, and what to do about it."""
    found = explain(said, system)
    assert found is not None
    assert cause in found[0]
    assert fix in found[1]


def test_words_that_are_not_understood_are_not_explained():
    """No cause is made up."""
    assert explain("bwrap: Can't find source path /x", machine()) is None


@pytest.mark.parametrize(
    ("what", "distribution", "command"),
    [
        ("bwrap", ("debian",), "apt-get install bubblewrap"),
        ("Xvfb", ("ubuntu", "debian"), "apt-get install xvfb"),
        ("Xvfb", ("fedora",), "dnf install xorg-x11-server-Xvfb"),
        ("CJK fonts", ("fedora",), "dnf install google-noto-sans-cjk-fonts"),
        ("browser", ("debian",), "apt-get install chromium"),
        ("openbox", (), "apt-get install openbox"),
    ],
)
def test_packages_have_their_name_on_each_distribution(what, distribution, command):
    """The command is the one of that system."""
    assert install(what, distribution) == command


def test_on_ubuntu_chromium_is_a_snap():
    """The advice is another browser's own package, not apt-get."""
    assert "snap" in install("browser", ("ubuntu", "debian"))


def test_a_snap_is_refused_by_name(tmp_path):
    """The script that Ubuntu puts in the place of Chromium is found out before it is started."""
    script = tmp_path / "chromium-browser"
    script.write_text('#!/bin/sh\nexec /snap/bin/chromium "$@"\n')
    script.chmod(0o755)
    with pytest.raises(IsolationUnavailable, match="snap"):
        browser.program(str(script))
    with pytest.raises(IsolationUnavailable, match="not there"):
        browser.program(str(tmp_path / "none"))


def test_a_browser_outside_usr_is_shown_with_its_directory(tmp_path):
    """A maker's package in /opt works: its own directory is mounted and executable."""
    chrome = tmp_path / "chrome"
    chrome.write_text("#!/bin/sh\n")
    chrome.chmod(0o755)
    assert browser.roots(str(chrome)) == (str(tmp_path.resolve()),)
    assert browser.roots("/usr/bin/python3") == ()


def test_what_is_printed():
    """Each probe is a line, each fix the line below it; one failure decides."""
    probes = [Probe("a", "ok", "fine"), Probe("b", "warn", "meh", "do x"), Probe("c", "fail", "no", "do y")]
    assert render(probes).splitlines() == [
        "ok    a: fine",
        "warn  b: meh",
        "      fix: do x",
        "FAIL  c: no",
        "      fix: do y",
    ]
    assert failed(probes)
    assert not failed(probes[:2])


def test_doctor_runs_here(configure, capsys):
    """On a machine that runs these tests a body can run, and the JSON says so for every probe."""
    assert doctor.main(configure(), as_json=True) == 0
    probes = {p["name"]: p for p in json.loads(capsys.readouterr().out)}
    for name in ("namespaces", "walls", "kill", "bwrap", "browser sandbox"):
        assert probes[name]["status"] == "ok", probes[name]
    assert all(p["fix"] for p in probes.values() if p["status"] == "fail")


def test_doctor_without_bwrap(configure, capsys, monkeypatch):
    """A missing bwrap fails with its package; nothing else is tried in vain."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert doctor.main(configure()) == 1
    said = capsys.readouterr().out
    assert "FAIL  bwrap: not installed" in said
    assert "install bubblewrap" in said
    assert "walls" not in said


def test_a_missing_program_refuses_the_start(configure):
    """The window manager is checked before anything starts."""
    with pytest.raises(IsolationUnavailable, match="wm is not installed"):
        isolation.require_isolation(configure(desktop={"window_manager": "/nonexistent/wm"}))
