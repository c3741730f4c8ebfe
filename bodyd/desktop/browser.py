"""The browser: its command line, its managed policy, and where its profile is. Pure but for file lookups.

Its own sandbox stays on: there is no code path that turns it off. The policy is mounted where each
Chromium-family browser reads it, on a read-only root.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from bodyd.errors import IsolationUnavailable

from .netinit import PROXY

PROFILE = "/home/user/chromium"
LOCKS = tuple(f"{PROFILE}/Singleton{name}" for name in ("Lock", "Socket", "Cookie"))
_POLICY_PLACES = ("chromium", "chromium-browser", "opt/chrome", "opt/edge", "brave")
_PROXY_URL = f"http://{PROXY[0]}:{PROXY[1]}"

# On Debian, /usr/bin/chromium is a shell script that takes host-wide flags and loads extensions.
_WRAPPED = {"/usr/bin/chromium": "/usr/lib/chromium/chromium"}

_OFF_FEATURES = (
    "Translate MediaRouter OptimizationHints OptimizationGuideModelDownloading CertificateTransparency"
    "ComponentUpdater AutofillServerCommunication InterestFeedContentSuggestions DialMediaRouteProvider "
    "PrivacySandboxSettings4 SideSearch LensOverlay GlobalMediaControls "
    # Renderers kept for what may come, and for the address bar's own list: 50 MB.
    "SpareRendererForSitePerProcess WebUIOmniboxPopup WebUIOmniboxAimPopup"
).split()


def program(path: str) -> str:
    """What to execute for the configured *path*.

    Raises:
        IsolationUnavailable: there is none, or it is a snap; with what to do.
    """
    real = os.path.realpath(_WRAPPED.get(path, path))
    if not os.path.exists(real):
        real = os.path.realpath(path)
    if not os.access(real, os.X_OK):
        raise IsolationUnavailable(
            f"the browser {path} is not there: install the package chromium, or name another Chromium-family "
            "browser as desktop.browser"
        )
    if is_snap(path):
        raise IsolationUnavailable(
            f"the browser {path} is a snap, which brings its own confinement and can't run in this one; "
            "install Chrome, Brave or Edge from its maker's package and name it as desktop.browser"
        )
    return real


def is_snap(path: str) -> bool:
    """Whether *path* is a snap, or the shell script that Ubuntu puts in place of one."""
    real = os.path.realpath(path)
    if real.startswith("/snap/") or real == "/usr/bin/snap":
        return True
    try:
        head = Path(real).read_bytes()[:4096]
    except OSError:
        return False
    return head.startswith(b"#!") and b"/snap/bin/" in head


def roots(path: str) -> tuple[str, ...]:
    """Directories beside /usr that the browser needs, shown and executable: none for a packaged one."""
    real = program(path)
    return () if real.startswith("/usr/") and not real.startswith("/usr/local/") else (os.path.dirname(real),)


def command(
    path: str, *, size: tuple[int, int], url: str | None, more: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The browser's command line; *url* is opened beside what the last session had open."""
    width, height = size
    flags = [
        program(path),
        f"--user-data-dir={PROFILE}",
        f"--proxy-server={_PROXY_URL}",
        "--proxy-bypass-list=<-loopback>",
        "--no-first-run",
        "--no-default-browser-check",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-breakpad",
        "--disable-gpu",
        "--password-store=basic",
        "--restore-last-session",
        "--hide-crash-restore-bubble",
        "--start-maximized",
        "--window-position=0,0",
        f"--window-size={width},{height}",
        f"--disable-features={','.join(_OFF_FEATURES)}",
        *more,
    ]
    return (*flags, url) if url else tuple(flags)


def policy_files(start_url: str) -> dict[str, bytes]:
    """The managed policy, by path, for every browser of the family."""
    content = json.dumps(policy(start_url), indent=1).encode()
    return {f"/etc/{place}/policies/managed/bodyd.json": content for place in _POLICY_PLACES}


def policy(start_url: str) -> dict[str, object]:
    """What the owner's policy fixes: no way to the file system, to code injection, or out of the proxy."""
    off = (
        "PasswordManagerEnabled AutofillCreditCardEnabled AutofillAddressEnabled RemoteDebuggingAllowed "
        "PrintingEnabled BackgroundModeEnabled SyncDisabled MetricsReportingEnabled SearchSuggestEnabled "
        "DefaultBrowserSettingEnabled PromotionsEnabled TranslateEnabled EnableMediaRouter "
        "ComponentUpdatesEnabled BrowserGuestModeEnabled BrowserAddPersonEnabled BookmarkBarEnabled "
        "PaymentMethodQueryEnabled UserFeedbackAllowed QuicAllowed AlternateErrorPagesEnabled "
        "SpellCheckServiceEnabled AudioCaptureAllowed VideoCaptureAllowed ScreenCaptureAllowed "
        "ShowAppsShortcutInBookmarkBar SigninInterceptionEnabled ShoppingListEnabled "
        "CloudReportingEnabled UrlKeyedAnonymizedDataCollectionEnabled WebRtcEventLogCollectionAllowed"
    ).split()
    rules: dict[str, object] = dict.fromkeys(off, False)
    rules |= {
        "SyncDisabled": True,
        "DeveloperToolsAvailability": 2,
        "ExtensionInstallBlocklist": ["*"],
        "ExtensionInstallForcelist": [],
        "BrowserSignin": 0,
        "IncognitoModeAvailability": 1,
        "RestoreOnStartup": 1,
        "HomepageLocation": start_url,
        "NewTabPageLocation": start_url,
        "DownloadDirectory": "/home/user/Downloads",
        "PromptForDownloadLocation": False,
        "DnsOverHttpsMode": "off",
        "NetworkPredictionOptions": 2,
        "WebRtcIPHandling": "disable_non_proxied_udp",
        "ProxySettings": {
            "ProxyMode": "fixed_servers",
            "ProxyServer": _PROXY_URL,
            "ProxyBypassList": "<-loopback>",
        },
        "URLBlocklist": _BLOCKED,
        "URLAllowlist": ["about:blank"],
    }
    for subject in ("Notifications", "Geolocation", "Sensors", "WebUsbGuard", "SerialGuard", "WebHidGuard"):
        rules[f"Default{subject}Setting"] = 2
    for subject in ("WebBluetoothGuard", "FileSystemReadGuard", "FileSystemWriteGuard", "LocalFonts"):
        rules[f"Default{subject}Setting"] = 2
    return rules


_SCHEMES = "javascript file chrome devtools chrome-untrusted chrome-search chrome-extension about ftp".split()
_BLOCKED = [f"{scheme}:*" for scheme in (*_SCHEMES, "view-source")] + [f"{s}://*" for s in _SCHEMES]
