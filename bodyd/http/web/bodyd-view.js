// <bodyd-view>: the body's screen, live, in a page of your own. No build step; view.js lies beside it.
//
//   <script type="module" src="https://body.example/bodyd-view.js"></script>
//   <bodyd-view ticket-url="/ticket" drive controls></bodyd-view>
//
// docs/how-to/embed.md has the attributes, properties and events. Nothing here knows a token: your
// server asks the body for a ticket, which opens one connection.

import { connect } from "./view.js";

const HOME = new URL(".", import.meta.url);
const LEAVE_MS = 2000;
const OPEN_TO_ALL = ["vacant", "held", "paused", "lapsed"];
const KEYS = ["Control w", "Control t", "Control n", "Alt Tab", "Alt F4", "Escape"];
const LEAVE_WORDS = "Ctrl+Alt+Home leaves its screen.";
const UNREACHED =
  "The body can't be reached, or lets no page of this site in ([http] allowed_origins names those it does).";

const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`
  :host { display: block; color-scheme: light dark; font: 1rem/1.4 system-ui, sans-serif; }
  :host([hidden]), [hidden] { display: none !important; }
  #screen { position: relative; overflow: hidden; background: #000; }
  #screen > canvas:first-child { display: block; width: 100%; height: auto; touch-action: none; }
  #bar { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem; padding: .5rem 0; }
  #said { flex: 1 1 14rem; margin: 0; }
  #wrong { margin: 0; padding: .5rem 0; color: light-dark(#a3231c, #ff8a80); }
  button { font: inherit; min-height: 2.75rem; padding: .2rem .9rem; cursor: pointer; }
  .aside { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  :focus-visible, #screen:focus-within { outline: 3px solid light-dark(#8a5300, #f0b45c); outline-offset: 2px; }
`);

export class BodydView extends HTMLElement {
  static observedAttributes = ["body", "ticket-url", "drive", "controls", "label"];

  #ticket = null; #view = null; #turn = null; #word = "closed"; #scope = null; #opened = false; #driver = "";
  #due = false; #parts;

  constructor() {
    super();
    this.#parts = this.#build();
    if (Object.hasOwn(this, "ticket")) { // set before this class was there
      const early = this.ticket;
      delete this.ticket;
      this.#ticket = early;
    }
  }

  // -- what a page sets and asks -----------------------------------------------------------------

  /** An async function that gets a ticket from your server; asked at each connection. */
  get ticket() { return this.#ticket; }
  set ticket(ask) {
    this.#ticket = ask;
    this.#reopen();
  }

  /** "connecting", "open" or "closed". */
  get status() { return this.#word; }

  /** The last state told: {lease, driver, yours, hidden}; null before the first. */
  get state() { return this.#opened ? this.#view?.state ?? null : null; }

  /** Whether whoever sits here has the body. */
  get driving() { return this.#view?.driving ?? false; }

  /** Take the body for whoever sits here; needs the attribute `drive`, and an owner's ticket. */
  async takeOver(reason = "") {
    if (!this.hasAttribute("drive")) throw new Error("this view watches only: it has no attribute `drive`");
    await this.#live().takeOver(reason);
    this.#show();
  }

  async handBack() { await this.#live().handBack(); }
  async setClipboard(text) { await this.#live().setClipboard(text); }
  async getClipboard() { return this.#live().getClipboard(); }
  sendText(text) { this.#live().sendText(text); }
  sendKeys(keys) { this.#live().sendKeys(keys); }
  letGo() { this.#view?.letGo(); }

  /** To the screen; while driving, to the body's keyboard. */
  focus(options) {
    if (this.driving) this.#view.focus();
    else this.#parts.screen.focus(options);
  }

  // -- coming and going --------------------------------------------------------------------------

  connectedCallback() { this.#reopen(); }

  disconnectedCallback() { // an element that is only moved is back before this is asked
    queueMicrotask(() => { if (!this.isConnected) this.#leave(); });
  }

  attributeChangedCallback(name, before, after) {
    if (before === after) return;
    if (name === "body" || name === "ticket-url") this.#reopen();
    else this.#show();
  }

  #live() {
    if (this.#view === null) throw new Error("this view is not connected");
    return this.#view;
  }

  /** Once for all that changes in one go. */
  #reopen() {
    if (this.#due || !this.isConnected) return;
    const asked = this.#asks();
    if (this.#view !== null && this.#turn.asked === asked) return;
    this.#due = true;
    queueMicrotask(() => {
      this.#due = false;
      this.#leave();
      if (this.isConnected) this.#open();
    });
  }

  /** What a connection depends on. */
  #asks() { return `${this.getAttribute("body")} ${this.#ticket === null ? this.getAttribute("ticket-url") : ""}`; }

  #open() {
    if (this.#ticket === null && !this.hasAttribute("ticket-url")) return;
    const turn = this.#turn = { asked: this.#asks() };
    const mine = (act) => (...told) => { if (turn === this.#turn) act(...told); };
    const canvas = document.createElement("canvas");
    this.#parts.screen.replaceChildren(canvas);
    this.#complain("");
    const view = connect(this.#base(), canvas, {
      ticket: () => this.#ask(),
      status: mine((word, scope) => this.#came(word, scope)),
      state: mine((state) => this.#changed(state)),
      screen: mine((size) => this.#tell("screen", size)),
      frame: mine((stats) => this.#tell("frame", stats)),
      refused: mine((error) => this.#refused(error)),
      clipboard: mine((text) => this.#tell("clipboard", { text })),
    });
    this.#view = view;
    this.#show();
  }

  #base() {
    const named = this.getAttribute("body");
    return named === null ? HOME : new URL(named, document.baseURI);
  }

  async #ask() {
    if (this.#ticket !== null) return this.#ticket();
    const answer = await fetch(this.getAttribute("ticket-url"), { method: "POST", cache: "no-store" });
    if (!answer.ok) throw new Error(`this site gave no ticket for the body (status ${answer.status})`);
    return (await answer.json()).ticket;
  }

  /** Hand back what was taken, and close; bounded. */
  async #leave() {
    const view = this.#view;
    if (view === null) return;
    this.#view = this.#turn = null;
    this.#opened = false;
    this.#driver = "";
    this.#came("closed", null);
    const patience = new Promise((resolve) => setTimeout(resolve, LEAVE_MS));
    if (view.driving) await Promise.race([view.handBack().catch(() => {}), patience]);
    view.close();
  }

  // -- what is heard -----------------------------------------------------------------------------

  #came(word, scope) {
    const never = word === "closed" && this.#word === "connecting" && this.#parts.wrong.hidden;
    this.#word = word;
    this.#scope = scope ?? null;
    if (word === "open") this.#complain("");
    if (never && this.#view !== null) this.#complain(UNREACHED);
    this.#show();
    this.#tell("status", { status: word, scope: this.#scope });
  }

  #changed(state) {
    this.#opened = true;
    this.#show();
    this.#tell("state", state);
    const { driver, yours, hidden } = state, now = `${driver} ${yours}`;
    if (now === this.#driver) return;
    this.#driver = now;
    this.#tell("driver", { driver, yours, hidden });
  }

  #refused(error) {
    this.#complain(error.message);
    this.#tell("refused", error);
  }

  #tell(name, detail) { this.dispatchEvent(new CustomEvent(name, { detail })); }

  // -- what is shown -----------------------------------------------------------------------------

  #build() {
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [STYLE];
    const make = (tag, fields, ...children) => {
      const made = Object.assign(document.createElement(tag), fields);
      made.append(...children);
      return made;
    };
    const button = (text, act) => {
      const made = make("button", { type: "button", textContent: text });
      made.part = "button";
      made.addEventListener("click", () => {
        this.#complain("");
        act().catch((error) => this.#refused(error));
      });
      return made;
    };
    const screen = make("div", { id: "screen", tabIndex: 0, role: "group" });
    screen.part = "screen";
    screen.setAttribute("aria-describedby", "said");
    const takeOver = button("Take over", () => this.takeOver());
    const handBack = button("Hand back", () => this.handBack());
    const keys = make("span", { role: "group", ariaLabel: "Keys that the browser keeps to itself" });
    keys.append(...KEYS.map((chord) => button(chord.replace("Control", "Ctrl"), async () => {
      this.sendKeys(chord.split(" "));
      this.focus();
    })));
    const said = make("p", { id: "said", role: "status" });
    const bar = make("div", { id: "bar" }, said, takeOver, handBack, keys);
    bar.part = "bar";
    const wrong = make("p", { id: "wrong", role: "alert", hidden: true });
    wrong.part = "wrong";
    root.append(screen, wrong, bar);
    root.addEventListener("keydown", (event) => this.#key(event), true);
    return { screen, takeOver, handBack, keys, said, bar, wrong };
  }

  /** The way into the body's keyboard, and out of it again, by the keyboard alone. */
  #key(event) {
    const { screen } = this.#parts;
    const out = event.key === "Home" && event.ctrlKey && event.altKey;
    const into = event.key === "Enter" && event.target === screen && this.driving;
    if (!out && !into) return;
    event.preventDefault();
    event.stopPropagation();
    if (out) screen.focus();
    else this.#view.focus();
  }

  #show() {
    const { screen, takeOver, handBack, keys, said, bar } = this.#parts, { state, driving } = this;
    const focused = this.shadowRoot.activeElement;
    const free = OPEN_TO_ALL.includes(state?.lease.state) && state?.driver !== "person";
    screen.setAttribute("aria-label", this.getAttribute("label") ?? "The body's screen, live");
    takeOver.hidden = driving || !free || this.#scope !== "owner" || !this.hasAttribute("drive");
    handBack.hidden = keys.hidden = !driving;
    bar.className = this.hasAttribute("controls") ? "" : "aside";
    if (!this.hasAttribute("controls")) takeOver.hidden = handBack.hidden = keys.hidden = true;
    if (focused?.closest("[hidden]")) screen.focus(); // a button that went away leaves nobody nowhere
    const words = this.#words(state);
    if (said.textContent !== words) said.textContent = words;
  }

  #words(state) {
    if (this.#word === "connecting") return "Connecting to the body.";
    if (this.#word === "closed") return this.#view === null ? "Not connected." : "Not connected; trying again.";
    if (state === null) return "Connected.";
    if (this.driving) return `You have the body. ${LEAVE_WORDS}`;
    if (state.hidden) return "A person has the body, and what they do is theirs.";
    if (state.lease.state === "stopped") return "The body is stopped.";
    if (state.lease.state === "recovery_required") return "The body needs recovery.";
    return { agent: "An agent has the body.", person: "A person has the body." }[state.driver] ?? "Nobody has the body.";
  }

  #complain(text) {
    this.#parts.wrong.textContent = text;
    this.#parts.wrong.hidden = text === "";
  }
}

if (!customElements.get("bodyd-view")) customElements.define("bodyd-view", BodydView);
