// The owner's page: the body's screen, its lease and its health, once a second while someone looks.
// Everything that the body or a driver chose (titles, names, reasons) is set as text, never as markup.

import { connect } from "/view.js";

const PERIOD_MS = 1000;
const ARMED_MS = 4000;
const ESCAPES_MS = 600;
const KEY = "bodyd.session";

const $ = (id) => document.getElementById(id);
const say = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };

class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `the daemon answered ${status}`);
    this.status = status;
    this.code = error?.code ?? "";
  }
}

async function call(method, path, body) {
  const headers = { authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(path, {
    method, headers, cache: "no-store", credentials: "omit",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.ok) return response;
  throw new Refused(response.status, (await response.json().catch(() => ({}))).error);
}

const get = async (path) => (await call("GET", path)).json();
const post = async (path, body) => (await call("POST", path, body)).json();

// -- coming in ----------------------------------------------------------------------------------

async function redeemTicket() {
  const given = location.hash.match(/^#ticket(?:=(.+))?$/)?.[1];
  if (!given) return;
  history.replaceState(null, "", location.pathname);
  const session = await post("/v1/tickets/redeem", { ticket: decodeURIComponent(given) });
  sessionStorage.setItem(KEY, session.token);
}

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
  say("state", word);
  $("state").className = `pill ${tone}`;
  const claim = lease.claim;
  const person = claim?.kind === "person";
  say("holder", !claim ? "Nobody" : live?.driving ? "You" : person ? "A person" : "An agent");
  say("conversation", person ? "–" : claim?.conversation_id ?? "–");
  say("epoch", String(lease.epoch));
  say("expires", claim ? new Date(claim.expires_at).toLocaleTimeString() : "–");
  const waiting = lease.queue > 0 ? `${lease.queue} waiting. ` : "";
  say("reason", waiting + (lease.reason ? `Last said: ${lease.reason}` : ""));
  const stopped = lease.state === "stopped";
  $("stop").disabled = stopped || scope === "viewer";
  $("resume").hidden = !stopped || scope !== "owner";
  const owner = scope === "owner", driving = live?.driving ?? false;
  const open = ["vacant", "held", "paused", "lapsed"].includes(lease.state);
  $("takeover").hidden = !owner || driving || !open || claim?.kind === "person" || live === null;
  $("handback").hidden = $("driving").hidden = !driving;
  $("pause").hidden = !owner || driving || lease.state !== "held";
  $("unpause").hidden = !owner || lease.state !== "paused";
  $("recover").hidden = !owner || lease.state !== "recovery_required";
}

// -- the live view ------------------------------------------------------------------------------

let live = null;      // the view, once it has shown something; pictures once a second until then
let hidden = false;   // a person drives, and this page may not see it

function openView() {
  const view = connect("/", $("live"), {
    ticket: async () => (await post("/v1/tickets/stream", {})).ticket,
    status: (word) => { if (word === "closed" && !view.driving) live = null; },
    state: (state) => { hidden = state.hidden; live = view; },
    frame: (stats) => {
      live = view;
      $("live").hidden = false;
      $("picture").hidden = true;
      $("screen").className = "";
      const { fps = 0, latency = null, mode = "" } = stats;
      say("stats", `${Math.round(fps)} fps${latency === null ? "" : ` · ${Math.round(latency)} ms`}${mode ? ` · ${mode}` : ""}`);
    },
    refused: (error) => { if (live !== null) complain(error.message); },
    clipboard: (text) => navigator.clipboard?.writeText(text).catch(() => {}),
  });
}

function showHealth(components) {
  const parts = Object.entries(components);
  const down = parts.filter(([, part]) => part.state !== "ready");
  say("verdict", down.length === 0 ? "Everything answers." : `Not well: ${down.map(([name]) => name).join(", ")}.`);
  $("components").replaceChildren(...parts.map(([name, part]) => {
    const item = document.createElement("li");
    const label = document.createElement("span");
    const state = document.createElement("span");
    label.textContent = name;
    state.textContent = part.detail ? `${part.state}: ${part.detail}` : part.state;
    state.className = part.state === "ready" ? "good" : "bad";
    item.append(label, state);
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
    picture.hidden = false;
    URL.revokeObjectURL(shown.url);
    shown = { sha256: shot.sha256, url };
  }
  const active = shot.windows.find((w) => w.active);
  say("caption", `${shot.width} × ${shot.height}${active ? ` · ${active.title}` : ""}`);
  $("screen").className = "";
}

function complain(text) {
  say("notice", text);
  $("notice").hidden = text === "";
}

async function refresh() {
  const status = await get("/v1/status");
  say("name", status.name ?? "");
  showLease(status.lease, status.scope);
  showHealth(status.components ?? {});
  try {
    if (live === null) await showScreen();
    else say("caption", hidden ? "A person is driving: their screen is theirs." : "Live");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    $("screen").classList.add("stale");
    say("caption", error.code === "person_driving" ? "A person is driving: their screen is theirs." : error.message);
  }
  complain("");
}

// -- acting -------------------------------------------------------------------------------------

function twice(button, ask, act) {
  const label = button.textContent;
  let timer = 0;
  const calm = () => { clearTimeout(timer); button.textContent = label; button.classList.remove("armed"); };
  button.addEventListener("click", async () => {
    if (!button.classList.contains("armed")) {
      button.textContent = ask;
      button.classList.add("armed");
      timer = setTimeout(calm, ARMED_MS);
      return;
    }
    calm();
    await attempt(act);
  });
}

async function attempt(act) {
  try {
    await act();
    await refresh();
  } catch (error) {
    complain(error.message);
  }
}

// -- the loop -----------------------------------------------------------------------------------

const visible = () => document.visibilityState === "visible" ? Promise.resolve() : new Promise((resolve) => {
  const look = () => {
    if (document.visibilityState !== "visible") return;
    document.removeEventListener("visibilitychange", look);
    resolve();
  };
  document.addEventListener("visibilitychange", look);
});

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function lost(error) {
  $("screen").classList.add("stale");
  $("state").className = "pill bad";
  $("stop").disabled = true;
  if (error.status === 401) {
    say("state", "signed out");
    complain("This page needs a fresh link: run “bodyd token link” and open what it prints.");
    return false;
  }
  say("state", "unreachable");
  complain(error instanceof Refused ? error.message : "The daemon does not answer. Trying again.");
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
    await pause(PERIOD_MS);
  }
}

twice($("stop"), "Really stop?", () => post("/v1/lease/stop", { reason: "stopped from the console" }));
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
  if (event.key !== "Escape" || live?.driving || $("stop").disabled) return;
  const twiceNow = event.timeStamp - escaped < ESCAPES_MS;
  escaped = event.timeStamp;
  if (twiceNow) attempt(() => post("/v1/lease/stop", { reason: "Esc, twice, in the console" }));
});
addEventListener("hashchange", () => location.reload());
try {
  await redeemTicket();
  openView();
  await watch();
} catch (error) {
  lost(error);
  complain(error.message);
}
