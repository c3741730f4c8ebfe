"""`bodyd doctor`: what this machine can and can't give a body, tried rather than guessed, with the fix."""

from __future__ import annotations

import json
import os
import platform
import shutil
from dataclasses import asdict
from functools import partial

import trio

from bodyd.config import Config
from bodyd.errors import BodydError

from . import accessibility, browser, selftest, selftest_x
from .cgroups import CONTROLLERS, open_cgroups
from .isolation import programs, read, system, unfit
from .layout import Uids, uids
from .process import bwrap_version
from .remedies import Probe, System, explain, install, render, severity

_FONTS = {
    "latin fonts": ("DejaVuSans", "Liberation"),
    "CJK fonts": ("NotoSansCJK", "NotoSerifCJK"),
    "emoji font": ("NotoColorEmoji", "Noto-COLRv1"),
}
_LIBRARIES = {"Pillow": "PIL", "numpy": "numpy"}
_FREE_BYTES = 1024**3
_CGROUP_FIX = (
    "give bodyd a cgroup of its own: systemd-run --scope -p Delegate=yes bodyd up, or Delegate=yes in its "
    "unit; in a container, limit the container instead"
)
_VERDICTS = {
    0: "A body can run here, and has all there is.",
    1: "A body can't run here yet.",
    3: "A body can run here; the warnings say what it does without.",
}


def main(config: Config, *, as_json: bool = False) -> int:
    """Probe, print, and return the exit status: 0, 3 with warnings, 1 if a body can't run here."""
    probes = trio.run(partial(examine, config))
    status = severity(probes)
    if as_json:
        print(json.dumps([asdict(p) for p in probes], indent=1))
    else:
        print(render(probes))
        print(f"\n{_VERDICTS[status]}")
    return status


async def examine(config: Config) -> list[Probe]:
    """Every probe; those that need a sandbox only if one can be built."""
    here = system()
    who = uids(config)
    probes = [
        _machine(),
        _backend(here),
        _user(who),
        *_programs(config, here),
        _browser(config, here),
        *([_accessibility(here)] if config.accessibility.enabled else []),
        *_fonts(here),
    ]
    said, found = "", unfit(who)
    if found is None:
        said = "bwrap is missing" if shutil.which("bwrap") is None else await selftest.namespaces(who)
    if found is not None:
        probes.append(Probe("namespaces", "fail", *found))
    elif said:
        cause, fix = explain(said, here) or (said, "")
        probes.append(Probe("namespaces", "fail", f"{cause} ({said})" if fix else said, fix))
    else:
        probes.append(Probe("namespaces", "ok", "user, mount, pid, network, ipc and uts, and /proc in them"))
        probes += await _functional(who, here)
        if config.code.enabled:
            probes += await _libraries(who, here)
        probes.append(await selftest_x.probe(config))
    return [*probes, *_limits(), _shared_memory(config), _disk(config)]


async def _functional(who: Uids, here: System) -> list[Probe]:
    tried, facts = await selftest.walls(who)
    probes = selftest.judge(tried)
    if facts.get("userns"):
        probes.append(
            Probe("browser sandbox", "ok", "user namespaces nest: the browser's own sandbox stays on")
        )
    else:
        _, fix = explain("namespace", here) or ("", "")
        probes.append(
            Probe("browser sandbox", "fail", "user namespaces don't nest; there is no running without", fix)
        )
    abi = facts.get("landlock") or 0
    if abi:
        probes.append(Probe("landlock", "ok", f"ABI {abi}: apps execute files under /usr only"))
    else:
        probes.append(
            Probe(
                "landlock",
                "warn",
                "not in this kernel: apps could execute what they download, inside their sandbox",
                "boot with lsm=landlock,… (kernel 5.13 or later)",
            )
        )
    took = await selftest.kill_time(who)
    detail = f"50 processes that ignore SIGTERM were gone in {took * 1000:.0f} ms"
    return [*probes, Probe("kill", "ok" if took < 2 else "fail", detail)]


async def _libraries(who: Uids, here: System) -> list[Probe]:
    """What code of the code tool imports; without Pillow it can't even look at the screen."""
    found = await selftest.imports(who, tuple(_LIBRARIES.values()))
    probes = []
    for name, module in _LIBRARIES.items():
        if found[module]:
            probes.append(Probe(name, "ok", f"{found[module]}, for code of the code tool"))
        else:
            detail = "can't be imported by /usr/bin/python3: the code tool does without"
            probes.append(Probe(name, "warn", detail, install(name, here.distribution)))
    return probes


def _machine() -> Probe:
    name = f"{platform.machine()}, Linux {platform.release()}"
    if platform.machine() not in ("x86_64", "aarch64"):
        return Probe("machine", "fail", name, "bodyd runs on x86_64 and aarch64")
    return Probe("machine", "ok", name)


def _backend(here: System) -> Probe:
    """bwrap is the only backend; what is around it decides how much it keeps."""
    if not here.container:
        return Probe(
            "backend", "ok", "bwrap, on the host's own kernel; a virtual machine around it keeps more"
        )
    return Probe(
        "backend",
        "ok",
        "bwrap, in a container: a kernel exploit from inside meets the container's walls, too",
    )


def _user(who: Uids) -> Probe:
    if who.drop:
        return Probe("uids", "ok", f"root: apps run as {who.apps}, the X server as {who.x}")
    return Probe(
        "uids",
        "warn",
        f"uid {who.apps} runs the daemon, the apps and the X server: namespaces alone keep them apart",
        "start bodyd as root to give each a uid of its own (it drops them)",
    )


def _programs(config: Config, here: System) -> list[Probe]:
    probes = []
    for name, path in programs(config).items():
        if path:
            probes.append(Probe(name, "ok", f"{path}, {bwrap_version()}" if name == "bwrap" else path))
        else:
            probes.append(Probe(name, "fail", "not installed", install(name, here.distribution)))
    return probes


def _browser(config: Config, here: System) -> Probe:
    path = config.desktop.browser
    if not path:
        return Probe("browser", "warn", "none configured: the desktop starts empty", "set desktop.browser")
    try:
        return Probe("browser", "ok", browser.program(path))
    except BodydError as exc:
        return Probe("browser", "fail", exc.message, install("browser", here.distribution))


def _accessibility(here: System) -> Probe:
    """Asked for and not there, the body does not start."""
    missing = accessibility.missing()
    if not missing:
        return Probe("accessibility", "ok", "dbus-daemon and the registry are there")
    fix = install("at-spi2-core dbus-daemon libatk-bridge2.0-0", here.distribution)
    return Probe("accessibility", "fail", f"accessibility.enabled needs {', '.join(missing)}", fix)


def _fonts(here: System) -> list[Probe]:
    names = {name for _, _, files in os.walk("/usr/share/fonts") for name in files}
    probes = []
    for kind, prefixes in _FONTS.items():
        if any(name.startswith(prefixes) for name in names):
            probes.append(Probe(kind, "ok", "installed"))
        else:
            probes.append(
                Probe(kind, "warn", "missing: such text shows as boxes", install(kind, here.distribution))
            )
    return probes


def _limits() -> list[Probe]:
    """Which limits hold for a sandbox as a whole, tried; and which do not hold here."""
    groups = open_cgroups("doctor")
    without = {
        "memory": "each process is limited alone, all together are not",
        "processes": "limited inside each sandbox alone",
        "cpu": "processor time is not limited at all",
    }
    probes = [
        Probe(f"limit: {what}", "ok", f"by cgroup {'v2' if place.unified else 'v1'}, {place.path}")
        for what, place in groups.places.items()
    ]
    for what in CONTROLLERS:
        if what in groups.missing:
            detail = f"not enforced by a cgroup ({groups.missing[what]}): {without[what]}"
            probes.append(Probe(f"limit: {what}", "warn", detail, _CGROUP_FIX))
    never = (
        "home is looked at, not held, by limits.home_bytes; /tmp's files are not counted, only their bytes"
    )
    return [*probes, Probe("limit: disk", "ok", never)]


def _shared_memory(config: Config) -> Probe:
    wanted = config.desktop.shm_bytes + config.desktop.tmp_bytes
    available = next(
        (
            int(x.split()[1]) * 1024
            for x in read("/proc/meminfo").splitlines()
            if x.startswith("MemAvailable")
        ),
        0,
    )
    detail = (
        f"{available >> 20} MiB available; the body's /dev/shm and /tmp may take {wanted >> 20} MiB of it"
    )
    if available < wanted:
        return Probe("memory", "warn", detail, "lower desktop.shm_bytes and desktop.tmp_bytes, or add memory")
    return Probe("memory", "ok", detail)


def _disk(config: Config) -> Probe:
    place = next(p for p in (config.state, *config.state.parents) if p.exists())
    free = shutil.disk_usage(place).free
    detail = f"{free >> 20} MiB free for {config.state}"
    return Probe(
        "disk", "ok" if free >= _FREE_BYTES else "warn", detail, "" if free >= _FREE_BYTES else "free 1 GiB"
    )
