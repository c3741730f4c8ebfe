// The daemon's API as this tab's session sees it, and text that came from a body made harmless to read.

const KEY = "bodyd.session";

export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `the daemon answered ${status}`);
    this.status = status;
    this.code = error?.code ?? "";
  }
}

export async function call(method, path, body) {
  const headers = { authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(path, {
    method, headers, cache: "no-store", credentials: "omit",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.ok) return response;
  throw new Refused(response.status, (await response.json().catch(() => ({}))).error);
}

export const get = async (path) => (await call("GET", path)).json();
export const post = async (path, body) => (await call("POST", path, body)).json();

export async function redeemTicket() {
  const given = location.hash.match(/^#ticket(?:=(.+))?$/)?.[1];
  if (!given) return;
  history.replaceState(null, "", location.pathname);
  const session = await post("/v1/tickets/redeem", { ticket: decodeURIComponent(given) });
  sessionStorage.setItem(KEY, session.token);
}

/** Events from now on, to *tell*, until the connection ends. */
export async function events(tell) {
  const reader = (await call("GET", "/v1/events")).body.pipeThrough(new TextDecoderStream()).getReader();
  tell("open");
  for (let rest = "";;) {
    const { value, done } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const name = frame.match(/^event: (.+)$/m)?.[1];
      if (name) tell(name);
    }
  }
}

// -- pictures ------------------------------------------------------------------------------------

const MOST_PICTURES = 60;
const pictures = new Map(); // screenshot id → a promise of an object URL, or of null if it is not kept
let line = Promise.resolve();

/** A kept screenshot, one at a time: thumbnails must not crowd out the live view. */
export function picture(id) {
  const known = pictures.get(id);
  if (known) return known;
  const coming = line.then(() => fetchPicture(id));
  line = coming.catch(() => null);
  pictures.set(id, coming);
  for (const [old, url] of pictures) {
    if (pictures.size <= MOST_PICTURES) break;
    pictures.delete(old);
    url.then((made) => made && URL.revokeObjectURL(made)).catch(() => {});
  }
  coming.catch(() => pictures.delete(id)); // the connection's fault: ask again later
  return coming;
}

async function fetchPicture(id) {
  try {
    return URL.createObjectURL(await (await call("GET", `/v1/screenshots/${encodeURIComponent(id)}/image`)).blob());
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}

// -- text ----------------------------------------------------------------------------------------

const SEQUENCES = new RegExp(
  "\\x1b\\][^\\x07\\x1b]*(?:\\x07|\\x1b\\\\|$)" +      // OSC: titles, links, clipboards
  "|\\x1b[PX^_][^\\x1b]*(?:\\x1b\\\\|$)" +              // DCS, SOS, PM, APC
  "|(?:\\x1b\\[|\\x9b)[0-?]*[ -/]*[@-~]" +              // CSI: colours, cursor, screen
  "|\\x1b[ -/]*[0-~]", "g");                            // the rest
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** *text* without terminal sequences; controls, and what turns the direction of writing, by number. */
export function plain(text) {
  return String(text).replace(/\r\n/g, "\n").replace(SEQUENCES, "")
    .replace(CONTROLS, (c) => `‹${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

/** An element with text: the only way in which anything gets into this page. */
export function make(name, className = "", text = null) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== null) made.textContent = plain(text);
  return made;
}

/** How long, in words: "80 ms", "12 s", "3 min", "2 h 5 min". */
export function span(ms) {
  if (ms > 0 && ms < 950) return `${Math.round(ms)} ms`;
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  return min < 60 ? `${min} min${min < 10 && s % 60 ? ` ${s % 60} s` : ""}` : `${Math.floor(min / 60)} h ${min % 60} min`;
}

export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
