// The live view: decodes the body's screen into a canvas, and sends a person's input. No build step.
//
//   import { connect } from "/view.js";
//   const view = connect("/", canvas, { ticket: async () => …, state: (state) => …, refused: (error) => … });
//   await view.takeOver("to sign in");  …  await view.handBack();
//
// The protocol is docs/reference/stream.md; nothing here knows the page around the canvas.

const VERSION = 1;
const SUBPROTOCOL = "bodyd.stream.v1";
const HEADER = 12, PART = 16;
const FRAME = 1, CURSOR = 2;
const PNG = 0, JPEG = 1, H264 = 2, PALETTE = 3;
const EXACT = 1, KEY = 1;
const RETRY_MS = [250, 500, 1000, 2000, 4000];
const NOTCH = 100;
const BUTTONS = ["left", "middle", "right", "back", "forward"];
const MODIFIERS = new Set(["Control", "Shift", "Alt", "Meta"]);
const STALL_MS = 1500;

/**
 * Open a view, and keep it open until `close`.
 *
 * @param base      where the daemon is: "/" for this page's own, or another origin that lets this page in
 * @param canvas    is given the screen's size and pixels; scaling it is the page's own affair
 * @param callbacks all optional but `ticket`:
 *   ticket()          → a promise of a ticket of `POST /v1/tickets/stream`; asked at each connection
 *   status(word)      "connecting", "open" or "closed"; with "open", the ticket's scope as well
 *   state(state)      {lease, driver, yours, hidden}, at each change
 *   screen(size)      {width, height}
 *   frame(stats)      {fps, mode, exact, bytes, latency} after each frame
 *   pointer(point)    {x, y} of the body's pointer
 *   refused(error)    {of, code, message, retryable}
 *   clipboard(text)   what was copied in the body, after Control+C or X
 */
export function connect(base, canvas, callbacks) {
  return new View(base, canvas, callbacks);
}

export class View {
  #base; #canvas; #context; #tell; #socket = null; #tries = 0; #closed = false; #timer = 0;
  #tail = Promise.resolve(); #generation = 0; #video = null; #noVideo = false;
  #state = { driver: "nobody", yours: false, hidden: false }; #lease = null; #waiting = [];
  #keyboard; #cursor; #pointer = null; #moving = null; #held = new Set(); #pressed = new Set(); #turn = { x: 0, y: 0 };
  #move = null; #times = []; #bytes = 0; #latency = null; #pings = new Map(); #pinged = 0; #listeners = new AbortController();

  constructor(base, canvas, callbacks) {
    this.#base = new URL(base, location.href);
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#tell = callbacks;
    this.#keyboard = keyboardOf(canvas);
    this.#cursor = cursorOf(canvas);
    this.#listen();
    this.#open();
  }

  /** Whether this view has the body. */
  get driving() { return this.#lease !== null && this.#state.yours; }

  /** The last state that was told. */
  get state() { return this.#state; }

  /** Take the body for whoever sits here; resolves once it is theirs. */
  async takeOver(reason = "") {
    const told = await this.#ask("take_over", { reason });
    this.#lease = told.lease_token;
    this.focus();
  }

  /** Give the body back. */
  async handBack() {
    await this.#ask("hand_back", {});
    this.#lease = null;
  }

  /** Type text: what an input method composed, or a page's own field. */
  sendText(text) {
    for (let at = 0; at < text.length;) {
      let piece = text.slice(at, at + 4000);
      if (/[\ud800-\udbff]$/.test(piece)) piece = piece.slice(0, -1);
      this.#say("text", { text: piece });
      at += piece.length;
    }
  }

  /** Press a chord: ["Control", "w"], ["Alt", "F4"]. For keys that the browser keeps to itself. */
  sendKeys(keys) {
    for (const key of keys) this.#say("key", { key, down: true });
    for (const key of [...keys].reverse()) this.#say("key", { key, down: false });
  }

  /** Put text on the body's clipboard. */
  async setClipboard(text) { await this.#ask("set_clipboard", { text }); }

  /** The text on the body's clipboard. */
  async getClipboard() { return (await this.#ask("get_clipboard", {})).text; }

  /** Lift every key and button. */
  letGo() {
    this.#held.clear();
    this.#pressed.clear();
    if (this.driving) this.#say("let_go", {});
  }

  /** Let the keyboard go to the body. */
  focus() { this.#keyboard.focus({ preventScroll: true }); }

  /** End the view; what it has taken over lapses unless it was handed back. */
  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#listeners.abort();
    this.#socket?.close(1000);
    this.#stopVideo();
    this.#keyboard.remove();
    this.#cursor.remove();
  }

  // -- the connection ----------------------------------------------------------------------------

  async #open() {
    this.#tell.status?.("connecting");
    try {
      const ticket = await this.#tell.ticket();
      if (this.#closed) return;
      const address = new URL("v1/stream", this.#base);
      address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
      const socket = new WebSocket(address, [SUBPROTOCOL, `bodyd.ticket.${ticket}`]);
      socket.binaryType = "arraybuffer";
      socket.addEventListener("open", () => this.#greet());
      socket.addEventListener("message", (event) => this.#hear(event.data));
      socket.addEventListener("close", () => this.#lost(socket));
      this.#socket = socket;
    } catch (error) {
      this.#refuse({ of: null, code: error.code ?? "unavailable", message: error.message, retryable: true });
      this.#again();
    }
  }

  async #greet() {
    const codecs = !this.#noVideo && await knowsVideo() ? ["h264"] : [];
    this.#say("hello", { version: VERSION, codecs });
  }

  #lost(socket) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    this.#generation += 1;
    this.#stopVideo();
    this.#pings.clear();
    for (const waiting of this.#waiting.splice(0)) waiting.reject(new Error("the live view was interrupted"));
    this.#state = { ...this.#state, yours: false };
    this.#tell.status?.("closed");
    this.#again();
  }

  #again() {
    if (this.#closed) return;
    const wait = RETRY_MS[Math.min(this.#tries++, RETRY_MS.length - 1)];
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#open(), wait);
  }

  #say(type, fields) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ type, ...fields }));
  }

  #ask(type, fields) {
    return new Promise((resolve, reject) => {
      if (this.#socket?.readyState !== WebSocket.OPEN) {
        reject(new Error("the live view is not connected"));
        return;
      }
      this.#waiting.push({ type, resolve, reject });
      this.#say(type, fields);
    });
  }

  #answer(types, settle) {
    const at = this.#waiting.findIndex((waiting) => types.includes(waiting.type));
    if (at < 0) return false;
    settle(this.#waiting.splice(at, 1)[0]);
    return true;
  }

  #hear(data) {
    if (typeof data !== "string") {
      this.#show(data);
      return;
    }
    const told = JSON.parse(data);
    switch (told.type) {
      case "welcome": this.#welcome(told.scope); break;
      case "state": this.#changed(told); break;
      case "screen": this.#resize(told); break;
      case "pointer": this.#pointed(told); break;
      case "granted": this.#answer(["take_over", "drive"], ({ resolve }) => resolve(told)); break;
      case "clipboard": this.#answer(["get_clipboard"], ({ resolve }) => resolve(told)); break;
      case "done": this.#answer([told.of], ({ resolve }) => resolve(told)); break;
      case "pong": this.#ponged(told.id); break;
      case "refused": {
        const error = Object.assign(new Error(told.error.message), told.error);
        if (!this.#answer([told.of], ({ reject }) => reject(error))) this.#refuse({ of: told.of, ...told.error });
        break;
      }
      default: break; // a later version may say more
    }
  }

  async #welcome(scope) {
    this.#tries = 0;
    this.#tell.status?.("open", scope);
    if (this.#lease === null) return;
    try { // the same person goes on
      this.#lease = (await this.#ask("drive", { lease_token: this.#lease })).lease_token;
    } catch {
      this.#lease = null;
    }
  }

  #refuse(error) { this.#tell.refused?.(error); }

  #changed(state) {
    this.#state = state;
    if (state.hidden) this.#blank();
    this.#cursor.hidden = state.hidden || state.yours;
    this.#canvas.style.cursor = state.yours ? this.#cursor.css ?? "default" : "";
    if (!state.yours) { this.#held.clear(); this.#pressed.clear(); }
    this.#tell.state?.(state);
  }

  // -- pictures ----------------------------------------------------------------------------------

  #resize({ width, height }) {
    this.#generation += 1;
    this.#queue(() => {
      if (this.#canvas.width !== width || this.#canvas.height !== height) {
        this.#canvas.width = width;
        this.#canvas.height = height;
      }
      this.#tell.screen?.({ width, height });
    });
  }

  #blank() {
    this.#generation += 1;
    this.#queue(() => this.#context.fillRect(0, 0, this.#canvas.width, this.#canvas.height));
  }

  #queue(work) {
    this.#tail = this.#tail.then(work).catch((error) => this.#broken(error));
  }

  #show(buffer) {
    const view = new DataView(buffer);
    const kind = view.getUint8(0), flags = view.getUint8(1), sequence = view.getUint32(4, true);
    const parts = partsOf(view, buffer);
    if (kind === CURSOR) {
      const [part] = parts;
      this.#cursor.show(part).then(() => {
        if (this.#state.yours) this.#canvas.style.cursor = this.#cursor.css;
        this.#place();
      }, () => {});
      return;
    }
    if (kind !== FRAME) return;
    const generation = this.#generation;
    const pictures = parts.map((part) => this.#decode(part)); // at once; drawn in their order
    for (const picture of pictures) if (picture instanceof Promise) picture.catch(() => {});
    this.#queue(async () => {
      try {
        for (const [index, picture] of pictures.entries()) {
          const image = picture instanceof ImageData ? picture : await picture;
          if (image === null) continue;
          const { x, y, width, height } = parts[index];
          const current = generation === this.#generation;
          if (image instanceof ImageData) {
            if (current) this.#context.putImageData(image, x, y);
            continue;
          }
          if (current) this.#context.drawImage(image, 0, 0, width, height, x, y, width, height);
          image.close();
        }
      } finally {
        this.#say("ack", { sequence });
      }
      this.#count(parts, flags, buffer.byteLength);
    });
  }

  #decode(part) {
    if (part.codec === PALETTE) return painted(part);
    if (part.codec !== H264) {
      return createImageBitmap(new Blob([part.data], { type: part.codec === PNG ? "image/png" : "image/jpeg" }));
    }
    if (part.flags & KEY) {
      this.#stopVideo();
      this.#video = new Video(part);
    }
    return this.#video === null ? Promise.resolve(null) : this.#video.decode(part);
  }

  #stopVideo() {
    this.#video?.close();
    this.#video = null;
  }

  #broken(error) {
    if (error instanceof VideoFailed) this.#noVideo = true; // begin again, with tiles alone
    this.#socket?.close(4000);
  }

  #count(parts, flags, size) {
    const now = performance.now();
    this.#bytes += size;
    this.#times.push(now);
    while (this.#times[0] < now - 1000) this.#times.shift();
    if (now - this.#pinged > 1000) {
      this.#pinged = now;
      const id = Math.floor(now);
      this.#pings.set(id, now);
      this.#say("ping", { id });
    }
    this.#tell.frame?.({
      fps: this.#times.length,
      mode: parts.some((part) => part.codec === H264) ? "video" : "tiles",
      exact: (flags & EXACT) !== 0,
      bytes: this.#bytes,
      latency: this.#latency,
    });
  }

  #ponged(id) {
    const sent = this.#pings.get(id);
    if (sent !== undefined) this.#latency = performance.now() - sent;
    this.#pings.clear();
  }

  #pointed(point) {
    this.#pointer = point;
    this.#place();
    this.#tell.pointer?.(point);
  }

  #place() {
    if (this.#pointer !== null) this.#cursor.place(this.#pointer);
  }

  // -- input -------------------------------------------------------------------------------------

  #listen() {
    const { signal } = this.#listeners;
    const on = (target, type, act, options = {}) =>
      target.addEventListener(type, act, { ...options, signal });
    const canvas = this.#canvas, keyboard = this.#keyboard;
    on(canvas, "pointermove", (event) => this.#moved(event));
    on(canvas, "pointerdown", (event) => this.#button(event, true));
    on(canvas, "pointerup", (event) => this.#button(event, false));
    on(canvas, "pointercancel", () => this.letGo());
    on(canvas, "contextmenu", (event) => { if (this.driving) event.preventDefault(); });
    on(canvas, "wheel", (event) => this.#wheel(event), { passive: false });
    on(keyboard, "keydown", (event) => this.#key(event, true));
    on(keyboard, "keyup", (event) => this.#key(event, false));
    on(keyboard, "compositionend", (event) => this.#composed(event.data));
    on(keyboard, "input", (event) => this.#typed(event));
    on(keyboard, "paste", (event) => this.#pasted(event));
    on(keyboard, "blur", () => this.letGo());
    on(window, "blur", () => this.letGo());
    on(document, "visibilitychange", () => { if (document.hidden) this.letGo(); });
    on(window, "resize", () => this.#place());
  }

  #at(event) {
    const box = this.#canvas.getBoundingClientRect();
    const scale = (at, start, length, pixels) =>
      Math.max(0, Math.min(pixels - 1, Math.floor(((at - start) * pixels) / length)));
    return {
      x: scale(event.clientX, box.left, box.width, this.#canvas.width),
      y: scale(event.clientY, box.top, box.height, this.#canvas.height),
    };
  }

  #moved(event) {
    if (!this.driving) return;
    this.#move ??= requestAnimationFrame(() => this.#sendMove());
    this.#moving = this.#at(event);
  }

  #sendMove() {
    if (this.#move !== null) cancelAnimationFrame(this.#move);
    this.#move = null;
    if (this.#moving !== null) this.#say("pointer", this.#moving);
    this.#moving = null;
  }

  #button(event, down) {
    if (!this.driving) return;
    const button = BUTTONS[event.button];
    if (button === undefined) return;
    event.preventDefault();
    this.#sendMove();
    if (down) {
      this.focus();
      this.#canvas.setPointerCapture(event.pointerId);
      this.#pressed.add(button);
    } else if (!this.#pressed.delete(button)) return;
    this.#say("button", { button, down, ...this.#at(event) });
  }

  #wheel(event) {
    if (!this.driving) return;
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 33 : event.deltaMode === WheelEvent.DOM_DELTA_PAGE ? 300 : 1;
    this.#turn.x += event.deltaX * unit;
    this.#turn.y += event.deltaY * unit;
    const dx = clamp(Math.trunc(this.#turn.x / NOTCH)), dy = clamp(Math.trunc(this.#turn.y / NOTCH));
    if (dx === 0 && dy === 0) return;
    this.#turn.x -= dx * NOTCH;
    this.#turn.y -= dy * NOTCH;
    this.#say("wheel", { ...this.#at(event), dx, dy });
  }

  #key(event, down) {
    if (!this.driving || event.isComposing || event.keyCode === 229) return;
    const { key } = event;
    if (down && isPaste(event)) return; // the paste event follows, with the text
    if (key === "Dead" || key === "Unidentified") return;
    const graph = event.getModifierState("AltGraph") && [...key].length === 1;
    event.preventDefault();
    if (graph) { // Control and Alt are how some systems say AltGr
      if (down) {
        for (const name of ["Control", "Alt"]) if (this.#held.delete(name)) this.#say("key", { key: name, down: false });
        this.sendText(key);
      }
      return;
    }
    if (MODIFIERS.has(key)) {
      if (down && event.repeat) return;
      this.#held[down ? "add" : "delete"](key);
    } else if (!down) return;
    this.#say("key", { key, down });
    if (down && isCopy(event)) setTimeout(() => this.#copied(), 200);
  }

  #composed(text) {
    this.#keyboard.value = "";
    if (this.driving && text) this.sendText(text);
  }

  #typed(event) {
    if (event.isComposing) return;
    const text = event.inputType === "insertCompositionText" || event.inputType === "insertFromComposition" ? "" : event.data;
    this.#keyboard.value = "";
    if (!this.driving) return;
    if (text) this.sendText(text);
    else if (event.inputType === "deleteContentBackward") this.sendKeys(["Backspace"]);
    else if (event.inputType === "insertLineBreak") this.sendKeys(["Enter"]);
  }

  async #pasted(event) {
    event.preventDefault();
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!this.driving) return;
    try {
      if (text) await this.setClipboard(text);
      this.sendKeys(["Control", "v"]);
    } catch (error) {
      this.#refuse({ of: "set_clipboard", code: error.code, message: error.message, retryable: false });
    }
  }

  async #copied() {
    if (!this.#tell.clipboard) return;
    try {
      this.#tell.clipboard(await this.getClipboard());
    } catch { /* handed back meanwhile, or nothing was copied */ }
  }
}

// -- video -----------------------------------------------------------------------------------------

class VideoFailed extends Error {}

class Video {
  #decoder; #waiting = []; #count = 0;

  constructor(part) {
    this.#decoder = new VideoDecoder({
      output: (frame) => {
        const waiting = this.#waiting.shift();
        if (waiting) waiting.resolve(frame);
        else frame.close();
      },
      error: (error) => this.#fail(error),
    });
    this.#decoder.configure({
      codec: codecOf(part.data), codedWidth: part.width, codedHeight: part.height,
      optimizeForLatency: true, hardwareAcceleration: "no-preference",
    });
  }

  decode(part) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#fail(new Error("the decoder keeps frames back")), STALL_MS);
      const settle = (act) => (value) => { clearTimeout(timer); act(value); };
      this.#waiting.push({ resolve: settle(resolve), reject: settle(reject) });
      try {
        this.#decoder.decode(new EncodedVideoChunk({
          type: part.flags & KEY ? "key" : "delta", timestamp: this.#count++, data: part.data,
        }));
      } catch (error) {
        this.#fail(error);
      }
    });
  }

  close() {
    if (this.#decoder.state !== "closed") this.#decoder.close();
    for (const { resolve } of this.#waiting.splice(0)) resolve(null);
  }

  #fail(error) {
    for (const { reject } of this.#waiting.splice(0)) reject(new VideoFailed(error.message));
    if (this.#decoder.state !== "closed") this.#decoder.close();
  }
}

let known = null;

function knowsVideo() {
  known ??= "VideoDecoder" in globalThis && isSecureContext
    ? VideoDecoder.isConfigSupported({ codec: "avc1.42c01f", codedWidth: 640, codedHeight: 360 }).then((a) => a.supported === true, () => false)
    : Promise.resolve(false);
  return known;
}

/** "avc1.PPCCLL" of the sequence parameter set in front (RFC 6381, 3.3). */
function codecOf(data) {
  for (let at = 0; at + 7 < data.length; at += 1) {
    if (data[at] === 0 && data[at + 1] === 0 && data[at + 2] === 1 && (data[at + 3] & 31) === 7) {
      return `avc1.${[...data.subarray(at + 4, at + 7)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    }
  }
  return "avc1.42c01f";
}

// -- pieces ----------------------------------------------------------------------------------------

function partsOf(view, buffer) {
  const parts = [];
  let at = HEADER;
  for (let left = view.getUint16(2, true); left > 0; left -= 1) {
    const length = view.getUint32(at + 12, true);
    parts.push({
      codec: view.getUint8(at), flags: view.getUint8(at + 1),
      x: view.getUint16(at + 2, true), y: view.getUint16(at + 4, true),
      width: view.getUint16(at + 6, true), height: view.getUint16(at + 8, true),
      data: new Uint8Array(buffer, at + PART, length),
    });
    at += PART + length;
  }
  return parts;
}

/** The pixels of a palette part: the number of colours less one, RGB of each, an index for each pixel. */
function painted({ width, height, data }) {
  const image = new ImageData(width, height), pixels = image.data;
  const count = data[0] + 1, indices = 1 + 3 * count;
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    const from = 1 + 3 * (count > 1 ? data[indices + pixel] : 0), to = 4 * pixel;
    pixels[to] = data[from];
    pixels[to + 1] = data[from + 1];
    pixels[to + 2] = data[from + 2];
    pixels[to + 3] = 255;
  }
  return image;
}

/** A field beside the canvas that has the keyboard: input methods compose only in one. */
function keyboardOf(canvas) {
  const field = document.createElement("textarea");
  field.setAttribute("aria-label", "Keyboard of the body's screen");
  field.autocapitalize = "off";
  field.autocomplete = "off";
  field.spellcheck = false;
  field.tabIndex = -1;
  Object.assign(field.style, {
    position: "absolute", width: "1px", height: "1px", padding: "0", border: "0", opacity: "0",
    resize: "none", pointerEvents: "none", left: "0", top: "0",
  });
  canvas.after(field);
  return field;
}

/** The body's pointer over the canvas, which itself shows the body's pixels alone. */
function cursorOf(canvas) {
  const picture = document.createElement("canvas");
  picture.setAttribute("aria-hidden", "true");
  Object.assign(picture.style, { position: "absolute", pointerEvents: "none", left: "0", top: "0" });
  canvas.after(picture);
  const hot = { x: 0, y: 0 };
  let url = null;
  return {
    css: null,
    set hidden(value) { picture.hidden = value; },
    async show(part) {
      const blob = new Blob([part.data], { type: "image/png" });
      const image = await createImageBitmap(blob);
      picture.width = part.width;
      picture.height = part.height;
      picture.getContext("2d").drawImage(image, 0, 0);
      image.close();
      Object.assign(hot, { x: part.x, y: part.y });
      if (url !== null) URL.revokeObjectURL(url);
      url = URL.createObjectURL(blob);
      this.css = `url(${url}) ${part.x} ${part.y}, default`;
    },
    place({ x, y }) {
      const across = canvas.offsetWidth / canvas.width, down = canvas.offsetHeight / canvas.height;
      const left = canvas.offsetLeft + (x - hot.x) * across, top = canvas.offsetTop + (y - hot.y) * down;
      picture.style.transform = `translate(${left}px, ${top}px)`;
    },
    remove() {
      if (url !== null) URL.revokeObjectURL(url);
      picture.remove();
    },
  };
}

const clamp = (notches) => Math.max(-50, Math.min(50, notches));
const command = (event) => (event.ctrlKey || event.metaKey) && !event.altKey;
const isPaste = (event) => command(event) && !event.shiftKey && event.key.toLowerCase() === "v";
const isCopy = (event) => command(event) && ["c", "x"].includes(event.key.toLowerCase());
