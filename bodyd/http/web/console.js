// The owner's page: the body's screen, its lease and its health; panels.js has what is beside them.
// Everything that the body or a driver chose (titles, names, reasons) is set as text, never as markup.

import { Refused, call, events, get, make, plain, post, redeemTicket, span } from "/api.js";
import { lookAtCalls, lookBack, lookForQuestions, lookFurtherBack } from "/panels.js";
import { connect } from "/view.js";

const PERIOD_MS = 1000;
const ESCAPES_MS = 600;
const NOTICE_MS = 12_000;
const SOON_MS = 150;
const RETRY_MS = 3000;

const $ = (id) => document.getElementById(id);
const say = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };

// -- showing ------------------------------------------------------------------------------------

const STATES = {
  vacant: ["free", "good"],
  held: ["being driven", "good"],
  paused: ["paused", "warn"],
  lapsed: ["driver gone quiet", "warn"],
  draining: ["handing over", "warn"],
  recovery_required: ["needs recovery", "bad"],
  stopped: ["stopped", "bad"],
};

function showLease(lease, scope) {
  const [word, tone] = STATES[lease.state] ?? [lease.state, "warn"];
  const claim = lease.claim;
  const person = claim?.kind === "person";
  say("state", lease.state !== "held" || !person ? word : live?.driving ? "you drive" : "a person drives");
  $("state").className = `pill ${tone}`;
  say("holder", !claim ? "Nobody" : live?.driving ? "You" : person ? "A person" : "An agent");
  say("conversation", person || !claim ? "–" : plain(claim.conversation_id));
  say("epoch", String(lease.epoch));
  say("age", claim ? span(now() - claim.issued_at) : "–");
  say("expires", claim ? span(claim.expires_at - now()) : "–");
  const suspended = lease.suspended ? `${plain(lease.suspended.conversation_id)} goes on afterwards. ` : "";
  const waiting = lease.queue > 0 ? `${lease.queue} waiting. ` : "";
  say("reason", suspended + waiting + (lease.reason ? `Last said: ${plain(lease.reason)}` : ""));
  const owner = scope === "owner", driving = live?.driving ?? false, stopped = lease.state === "stopped";
  const open = ["vacant", "held", "paused", "lapsed"].includes(lease.state);
  $("stop").disabled = stopped;
  $("stop").hidden = scope === "viewer";
  $("resume").hidden = !stopped || !owner;
  $("takeover").hidden = !owner || driving || !open || person || live === null;
  $("handback").hidden = $("driving").hidden = !driving;
  $("pause").hidden = !owner || driving || lease.state !== "held";
  $("unpause").hidden = !owner || lease.state !== "paused";
  $("recover").hidden = !owner || lease.state !== "recovery_required";
  for (const section of document.querySelectorAll("[data-owner]")) section.hidden = !owner;
}

const now = () => Date.now();

// -- the live view ------------------------------------------------------------------------------

let live = null;      // the view, once it has shown something; pictures once a second until then
let hidden = false;   // a person drives, and this page may not see it

function openView() {
  const view = connect("/", $("live"), {
    ticket: async () => (await post("/v1/tickets/stream", {})).ticket,
    status: (word) => { if (word === "closed" && !view.driving) live = null; },
    state: (state) => { hidden = state.hidden; live = view; veil(); },
    frame: (stats) => {
      live = view;
      dirty.add("title"); // no event tells of a title, but it never changes without a picture
      $("live").hidden = false;
      $("picture").hidden = true;
      $("screen").className = "";
      const { fps = 0, latency = null, mode = "" } = stats;
      $("stats").hidden = false;
      say("fps", `${Math.round(fps)} fps`);
      say("latency", latency === null ? "" : `${Math.round(latency)} ms`);
      say("mode", mode);
    },
    refused: (error) => { if (live !== null) complain(error.message); },
    clipboard: (text) => navigator.clipboard?.writeText(text).catch(() => {}),
  });
}

function veil() {
  $("veil").hidden = !hidden || live === null;
  if (!$("veil").hidden) {
    $("live").hidden = false;
    $("picture").hidden = true;
    $("screen").className = "";
  }
}

const HEALTHS = { ready: "well", down: "down", starting: "starting", restarting: "restarting", hung: "hangs", failed: "failed" };

function showHealth(components) {
  const parts = Object.entries(components);
  const down = parts.filter(([, part]) => part.state !== "ready");
  say("verdict", down.length === 0 ? "Everything answers." : `Not well: ${down.map(([name]) => name.replaceAll("_", " ")).join(", ")}.`);
  $("components").replaceChildren(...parts.map(([name, part]) => {
    const item = make("li", part.detail ? "long" : "");
    const word = HEALTHS[part.state] ?? part.state;
    const state = make("span", part.state === "ready" ? "good" : "bad", part.detail ? `${word}: ${part.detail}` : word);
    item.append(make("span", "", name.replaceAll("_", " ")), state);
    return item;
  }));
}

let shown = { sha256: "", url: "" };

async function showScreen() {
  const shot = await post("/v1/screenshots", {});
  if (shot.sha256 !== shown.sha256) {
    const blob = await (await call("GET", `/v1/screenshots/${encodeURIComponent(shot.screenshot_id)}/image`)).blob();
    const url = URL.createObjectURL(blob);
    const picture = $("picture");
    picture.src = url;
    await picture.decode();
    URL.revokeObjectURL(shown.url);
    shown = { sha256: shot.sha256, url };
  }
  $("picture").hidden = false;
  $("live").hidden = $("veil").hidden = $("stats").hidden = true;
  const active = shot.windows.find((w) => w.active);
  say("caption", `${shot.width} × ${shot.height}${active ? ` · ${plain(active.title)}` : ""} · a picture a second`);
  $("screen").className = "";
}

let until = 0; // when a notice of something that was tried has been there for long enough

/** Say what went wrong; *lasting* until it is right again, else for a while. */
function complain(text, lasting = false) {
  until = lasting ? 0 : Date.now() + NOTICE_MS;
  say("notice", plain(text));
  $("notice").hidden = text === "";
}

let title = "";

/** The active window's, for the caption. */
async function windowTitle() {
  const { windows } = await get("/v1/inventory");
  const active = windows.find((w) => w.active);
  return active ? plain(active.title) : "";
}

const dirty = new Set(["receipts", "calls", "approvals", "title"]);
let running = false; // something runs, whose output grows

async function refresh() {
  const status = await get("/v1/status");
  say("name", plain(status.name ?? ""));
  showLease(status.lease, status.scope);
  showHealth(status.components ?? {});
  try {
    if (live === null) await showScreen();
    else await caption(status);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    $("screen").classList.add("stale");
    say("caption", error.code === "person_driving" ? "A person is driving: their screen is theirs." : plain(error.message));
  }
  if (status.scope === "owner") await panels();
  if (Date.now() > until) complain("");
}

async function caption(status) {
  if (!hidden && dirty.delete("title")) title = await windowTitle();
  const size = status.display ? `${status.display.width} × ${status.display.height}` : "";
  say("caption", hidden ? "A person is driving: their screen is theirs." : [size, title].filter(Boolean).join(" · "));
}

async function panels() {
  await look("approvals", async () => {
    const count = await lookForQuestions(complain);
    document.title = count ? `(${count}) bodyd` : "bodyd";
  });
  await look("receipts", lookBack);
  if (running) dirty.add("calls");
  await look("calls", async () => { running = await lookAtCalls(); });
}

/** Look at *part* if it may have changed; a refusal of it alone is said, and leaves the rest as it is. */
async function look(part, at) {
  if (!dirty.delete(part)) return;
  try {
    await at();
  } catch (error) {
    dirty.add(part);
    if (!(error instanceof Refused) || error.status === 401) throw error;
    complain(error.message);
  }
}

const OF = { action: "receipts", act: "receipts", call: "calls", approval: "approvals" };

/** Hear what happens, and look again at what it is about. */
async function listen() {
  for (;;) {
    try {
      await events((name) => {
        const about = OF[name.split(".")[0]];
        for (const part of name === "open" || !about ? ["receipts", "calls", "approvals"] : [about]) dirty.add(part);
        dirty.add("title");
        wake();
      });
    } catch { /* the other loop says what is wrong */ }
    if (signedOut) return;
    await pause(RETRY_MS);
  }
}

// -- acting -------------------------------------------------------------------------------------

async function attempt(act) {
  try {
    complain("");
    await act();
    await refresh();
  } catch (error) {
    complain(error.message);
  }
}

const stop = (reason) => attempt(() => post("/v1/lease/stop", { reason }));

// -- the loop -----------------------------------------------------------------------------------

const visible = () => document.visibilityState === "visible" ? Promise.resolve() : new Promise((resolve) => {
  const look = () => {
    if (document.visibilityState !== "visible") return;
    document.removeEventListener("visibilitychange", look);
    resolve();
  };
  document.addEventListener("visibilitychange", look);
});

let wake = () => {};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let signedOut = false;

function lost(error) {
  $("screen").classList.add("stale");
  $("state").className = "pill bad";
  $("stop").disabled = true;
  if (error.status === 401) {
    signedOut = true;
    say("state", "signed out");
    complain("This page needs a fresh link: run “bodyd token link” and open what it prints.", true);
    return false;
  }
  say("state", "unreachable");
  complain(error instanceof Refused ? error.message : "The daemon does not answer. Trying again.", true);
  for (const part of ["receipts", "calls", "approvals", "title"]) dirty.add(part);
  return true;
}

async function watch() {
  for (;;) {
    await visible();
    try {
      await refresh();
    } catch (error) {
      if (!lost(error)) return;
    }
    await Promise.race([pause(PERIOD_MS), new Promise((resolve) => { wake = resolve; })]);
    await pause(SOON_MS); // what happens comes in bursts
  }
}

$("stop").addEventListener("click", () => stop("stopped from the console"));
$("earlier").addEventListener("click", () => attempt(lookFurtherBack));
$("resume").addEventListener("click", () => attempt(() => post("/v1/lease/resume", {})));
$("takeover").addEventListener("click", () => attempt(() => live.takeOver("taken over from the console")));
$("handback").addEventListener("click", () => attempt(() => live.handBack()));
$("pause").addEventListener("click", () => attempt(() => post("/v1/lease/pause", { reason: "paused from the console" })));
$("unpause").addEventListener("click", () => attempt(() => post("/v1/lease/resume", {})));
$("recover").addEventListener("click", () => attempt(() => post("/v1/lease/recover", { step: 1 })));
for (const button of document.querySelectorAll("[data-keys]"))
  button.addEventListener("click", () => { live?.sendKeys(button.dataset.keys.split(" ")); live?.focus(); });
$("typing").addEventListener("submit", (event) => {
  event.preventDefault();
  live?.sendText($("text").value);
  $("text").value = "";
});
let escaped = 0;
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || live?.driving || $("stop").disabled || $("stop").hidden) return;
  const twiceNow = event.timeStamp - escaped < ESCAPES_MS;
  escaped = event.timeStamp;
  if (twiceNow) stop("Esc, twice, in the console");
});
addEventListener("keydown", (event) => { // before the view hears it: the way out of it for a keyboard
  if (!live?.driving || !event.ctrlKey || !event.altKey || event.code !== "KeyK") return;
  event.preventDefault();
  event.stopImmediatePropagation();
  live.letGo();
  $("handback").focus();
}, { capture: true });
addEventListener("hashchange", () => location.reload());
try {
  await redeemTicket();
  openView();
  listen();
  await watch();
} catch (error) {
  lost(error);
  complain(error.message, true);
}
