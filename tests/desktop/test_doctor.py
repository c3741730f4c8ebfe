"""doctor: causes and fixes by table, what is printed, and a run on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from bodyd.desktop import browser, doctor, isolation, selftest, selftest_x
from bodyd.desktop.cgroups import NONE
from bodyd.desktop.layout import uids
from bodyd.desktop.remedies import (
    CAPABILITIES,
    Probe,
    System,
    explain,
    install,
    lacking,
    render,
    severity,
)
from bodyd.desktop.seccomp import strict_filter
from bodyd.errors import IsolationUnavailable

from .conftest import BASE_UID, ROOT, descendants, readable_python

NO_NAMESPACE = "bwrap: No permissions to create new namespace, likely because the kernel does not allow"
USED_UP = "bwrap: Creating new namespace failed: nesting depth or max_*_namespaces exceeded (ENOSPC)"
BUSY = "Resource temporarily unavailable"
NO_PROC = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"


def machine(*distribution, container=False, filtered=False, mapped=True, **sysctls):
    named = {k.replace("__", "."): v for k, v in sysctls.items()}
    return System(distribution or ("debian",), named, container, filtered, mapped)


@pytest.mark.parametrize(
    ("said", "system", "cause", "fix"),
    [
        (NO_PROC, machine(container=True), "/proc is masked", "systempaths=unconfined"),
        (NO_PROC, machine(container=True), "/proc is masked", "procMount: Unmasked"),
        (NO_NAMESPACE, machine(user__max_user_namespaces="0"), "set to none", "user.max_user_namespaces="),
        ("bwrap: No space left on device", machine(), "used up", "user.max_user_namespaces="),
        (USED_UP, machine(filtered=True), "used up", "user.max_user_namespaces="),
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
        (NO_NAMESPACE, machine(filtered=True, mapped=False), "the uid that runs bodyd", "--map-user="),
        ("setpriv: failed to execute prlimit: " + BUSY, machine(), "processes", "ulimit -u"),
        (
            "bwrap: Creating new namespace failed: " + BUSY,
            machine(container=True),
            "processes",
            "--pids-limit",
        ),
        ("setpriv: setresuid failed: Invalid argument", machine(), "no such uids", "desktop.base_uid"),
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
        ("Pillow", ("debian",), "apt-get install python3-pil"),
        ("Pillow", ("fedora",), "dnf install python3-pillow"),
        ("numpy", ("debian",), "apt-get install python3-numpy"),
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
    assert [severity(probes[:count]) for count in (1, 2, 3)] == [0, 3, 1]


def test_doctor_runs_here(configure, capsys):
    """On a machine that runs these tests a body can run, and the JSON says so for every probe."""
    status = doctor.main(configure(), as_json=True)
    probes = {p["name"]: p for p in json.loads(capsys.readouterr().out)}
    walls = "namespaces", "network", "egress", "kernel", "seccomp", "kill", "x server"
    for name in (*walls, "bwrap", "browser sandbox"):
        assert probes[name]["status"] == "ok", probes[name]
    assert {"machine", "backend", "uids", "landlock", "memory", "disk", "limit: memory"} <= probes.keys()
    assert status == (3 if any(p["status"] == "warn" for p in probes.values()) else 0)
    assert all(p["fix"] for p in probes.values() if p["status"] == "fail")


UNFIT = {
    "no uid": (["unshare", "-U"], "--map-user="),
    "one uid": (["unshare", "-U", "-r"], "start bodyd as an ordinary user"),
    "no rights": (["setpriv", "--bounding-set=-all", "--inh-caps=-all"], "--cap-add SETUID"),
    "not to kill": (["setpriv", "--bounding-set=-kill", "--inh-caps=-all"], "--cap-add KILL;"),
}


@pytest.mark.skipif(not ROOT, reason="only root gives uids to the parts of a body")
@pytest.mark.parametrize("lacks", UNFIT)
def test_without_the_uids_or_the_right_to_them_the_advice_is_of_that(lacks, tmp_path):
    """Run for real: it is neither a filter nor the kernel, and doctor says so."""
    rights, fix = UNFIT[lacks]
    (config := tmp_path / "bodyd.toml").touch()
    bodyd = [*rights, sys.executable, "-m", "bodyd", "--config", str(config)]
    done = subprocess.run([*bodyd, "doctor", "--json"], capture_output=True, check=False)
    probes = {probe["name"]: probe for probe in json.loads(done.stdout)}
    assert (done.returncode, probes["namespaces"]["status"]) == (1, "fail")
    assert fix in probes["namespaces"]["fix"]


def test_without_the_uids_the_start_is_refused(configure, monkeypatch):
    """In doctor's words, before any folder is made."""
    monkeypatch.setattr(isolation, "read", lambda path: "0 100000 1000" if "map" in path else "")
    with pytest.raises(IsolationUnavailable, match=r"uid.*; fix: "):
        isolation.require_isolation(configure(desktop={"browser": "", "base_uid": 61000}))


@pytest.mark.parametrize(("effective", "names"), [(0xEB, []), (0xCB, ["KILL"]), (0, list(CAPABILITIES))])
def test_capabilities_that_root_lacks_are_named(effective, names):
    """Each of them, in the cause and in the fix; none where all are there, whatever else is not."""
    cause, fix = lacking(effective) or ("", "")
    assert [name for name in CAPABILITIES if name in cause] == names
    assert [name for name in CAPABILITIES if f"--cap-add {name}" in fix] == names


def test_doctor_without_bwrap(configure, capsys, monkeypatch):
    """A missing bwrap fails with its package; nothing else is tried in vain."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert doctor.main(configure()) == 1
    said = capsys.readouterr().out
    assert "FAIL  bwrap: not installed" in said
    assert "install bubblewrap" in said
    assert "egress:" not in said


def test_a_missing_program_refuses_the_start(configure):
    """The window manager is checked before anything starts."""
    with pytest.raises(IsolationUnavailable, match="wm is not installed"):
        isolation.require_isolation(configure(desktop={"window_manager": "/nonexistent/wm"}))


def test_a_wall_that_leaks_is_a_failure():
    """Each attempt that came to something else than it must is named; nothing said is a failure, too."""
    tried = {"host_loopback": "done", "error": "Traceback", "vsock": "EAFNOSUPPORT"}
    probes = {probe.name: probe for probe in selftest.judge(tried)}
    assert {probe.status for probe in probes.values()} == {"fail"}
    assert "host_loopback came to done" in probes["network"].detail
    assert "core_pattern came to nothing" in probes["kernel"].detail


def test_an_x_server_that_is_open_or_poor_is_a_failure():
    """Answering without a cookie, and extensions that are not there."""
    assert selftest_x.judge(selftest_x.Seen("X", False, ())).status == "fail"
    poor = selftest_x.judge(selftest_x.Seen("X", True, ("XTEST",)))
    assert (poor.status, "XTEST" in poor.detail, bool(poor.fix)) == ("fail", True, True)


async def test_an_x_server_that_does_not_start_is_a_failure(configure, monkeypatch):
    """Its own words are in the detail."""
    monkeypatch.setattr("bodyd.desktop.xserver.XVFB", "/usr/bin/false")
    probe = await selftest_x.probe(configure())
    assert probe.status == "fail"
    assert "did not start" in probe.detail


async def test_libraries_of_the_code_tool_are_imported_to_see(configure, monkeypatch):
    """Inside the sandbox; one that is missing, or broken, is a warning with its package."""
    who = uids(configure())
    there = {probe.name: probe for probe in await doctor._libraries(who, machine())}
    assert there["Pillow"].status == there["numpy"].status == "ok", there
    monkeypatch.setattr(doctor, "_LIBRARIES", {"Pillow": "no_such_module", "numpy": "no_such.either"})
    lacking = {probe.name: probe for probe in await doctor._libraries(who, machine())}
    assert [probe.status for probe in lacking.values()] == ["warn", "warn"]
    assert lacking["Pillow"].fix == "apt-get install python3-pil"


def test_limits_that_do_not_hold_are_named(monkeypatch):
    """Without control groups each limit says what holds in its place, or that nothing does, and the fix."""
    monkeypatch.setattr(doctor, "open_cgroups", lambda name: NONE)
    probes = {probe.name: probe for probe in doctor._limits()}
    assert "not limited at all" in probes["limit: cpu"].detail
    assert "each process is limited alone" in probes["limit: memory"].detail
    assert "Delegate=yes" in probes["limit: memory"].fix


NESTED = {
    "no namespaces left": (["--disable-userns"], "user.max_user_namespaces=15000"),
    "a masked /proc": (["--ro-bind", "/dev/null", "/proc/interrupts"], "systempaths=unconfined"),
    "a seccomp filter": (["--seccomp", "FILTER"], "--security-opt seccomp="),
}


@pytest.mark.skipif(not ROOT, reason="only root can become a plain user")
@pytest.mark.skipif(readable_python() is None, reason="no interpreter that a plain user can run")
@pytest.mark.parametrize("lacking", NESTED)
def test_in_a_sandbox_without_the_rights_the_advice_is_exact(lacking, place):
    """Run for real where a container's walls are in the way: the cause is found, the fix is the one."""
    packages, repo = Path(trio.__file__).parent.parent, Path(__file__).resolve().parents[2]
    if any(not p.stat().st_mode & 0o001 for p in (*packages.parents, *repo.parents)):
        pytest.skip("a plain user can't read this checkout")
    extra, fix = NESTED[lacking]
    user = str(BASE_UID + 3)
    with open(os.memfd_create("filter"), "w+b") as filter_file:
        filter_file.write(strict_filter())
        filter_file.seek(0)
        extra = [str(filter_file.fileno()) if word == "FILTER" else word for word in extra]
        done = subprocess.run(
            [
                *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", "bwrap"),
                *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
                *("--unshare-user", "--unshare-pid", "--die-with-parent", *extra, "--"),
                *(readable_python(), "-B", "-m", "bodyd", "doctor", "--json"),
            ],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{repo}:{packages}", "HOME": "/home"},
            pass_fds=(filter_file.fileno(),),
            capture_output=True,
            check=False,
            cwd="/",
        )
    for orphan in descendants():  # the namespace's init, whose bwrap ended first
        os.waitpid(orphan, 0)
    assert done.returncode == 1, done.stderr
    probes = {probe["name"]: probe for probe in json.loads(done.stdout)}
    assert probes["namespaces"]["status"] == "fail"
    assert fix in probes["namespaces"]["fix"]
    assert probes["uids"]["status"] == "warn"
    assert "egress" not in probes


def test_accessibility_that_is_asked_for_needs_its_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing of it is named, with the packages to install."""
    monkeypatch.setattr(doctor.accessibility, "PROGRAMS", ("/nonexistent/dbus-daemon",))
    probe = doctor._accessibility(doctor.system())
    assert probe.status == "fail"
    assert "/nonexistent/dbus-daemon" in probe.detail
    assert "at-spi2-core" in probe.fix
