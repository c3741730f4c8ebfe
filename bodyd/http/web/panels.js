// The panels beside the screen: the timeline, commands and code, approvals. Each is told to look again.
//
// Entries are kept by id and changed in place, so that nothing that someone is about to press moves away.

import { Refused, clock, get, make, picture, plain, post, span } from "/api.js";
import { known, sentence, target, verdict } from "/words.js";

const $ = (id) => document.getElementById(id);
const MOST_LINES = 4;

const coming = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target: button } of seen) if (isIntersecting) show(button);
}, { rootMargin: "200px" });

/** A screenshot with marks at *points*, fetched once it is near; pressed, it is shown large. */
function thumbnail(id, points, name) {
  const button = make("button", "thumb");
  button.type = "button";
  button.disabled = true;
  button.dataset.shot = id;
  button.points = points;
  button.append(make("span", "none", "…"));
  button.setAttribute("aria-label", plain(name));
  button.addEventListener("click", () => enlarge(button, name));
  coming.observe(button);
  return button;
}

async function show(button) {
  let url;
  try {
    url = await picture(button.dataset.shot);
  } catch {
    return; // the next look at it tries again
  }
  coming.unobserve(button);
  if (url === null) {
    button.replaceChildren(make("span", "none", "not kept"));
    return;
  }
  const image = make("img");
  image.alt = "";
  image.src = url;
  try { await image.decode(); } catch { return; }
  button.replaceChildren(image, ...marks(image, button.points));
  button.disabled = false;
}

function marks(image, points) {
  return points.map(([x, y], index) => {
    const mark = make("span", index ? "mark end" : "mark");
    mark.style.left = `${100 * (x + 0.5) / image.naturalWidth}%`;
    mark.style.top = `${100 * (y + 0.5) / image.naturalHeight}%`;
    return mark;
  });
}

function enlarge(button, name) {
  const image = button.querySelector("img").cloneNode();
  const frame = make("div", "frame");
  frame.append(image, ...[...button.querySelectorAll(".mark")].map((mark) => mark.cloneNode()));
  image.alt = plain(name);
  $("zoomed").replaceChildren(frame, make("p", "", name));
  $("zoom").showModal();
}

/** Make the children of *list* those of *wanted* ({id, made()}), keeping the ones that are there. */
function keep(list, wanted) {
  const there = new Map([...list.children].map((child) => [child.dataset.id, child]));
  wanted.forEach(({ id, made }, index) => {
    let child = there.get(id);
    if (!child) {
      child = made();
      child.dataset.id = id;
    }
    there.delete(id);
    if (list.children[index] !== child) list.insertBefore(child, list.children[index] ?? null);
  });
  for (const gone of there.values()) gone.remove();
  return [...list.children];
}

// -- what was done -------------------------------------------------------------------------------

let sight = 30;

export async function lookBack() {
  const { receipts } = await get(`/v1/receipts?limit=${sight}`);
  $("nothing-done").hidden = receipts.length > 0;
  $("earlier").hidden = receipts.length < sight || sight >= 100;
  const wanted = receipts.map((one) => ({ id: `${one.sequence}${one.receipt === null ? "?" : ""}`, made: () => batch(one) }));
  keep($("timeline"), wanted);
}

export function lookFurtherBack() {
  sight = 100;
  return lookBack();
}

function batch(one) {
  const item = make("li", "batch");
  const [tone, word] = verdict(one.receipt);
  const name = one.inputs.map(sentence).slice(0, MOST_LINES).join("; ");
  const aimedAt = one.receipt?.screenshot_id ?? one.screenshot_id;
  if (aimedAt) item.append(thumbnail(aimedAt, one.inputs.flatMap(target).slice(0, 16), name));
  else item.append(make("span", "thumb blank", "no picture"));
  const said = make("div", "said");
  one.inputs.slice(0, MOST_LINES).forEach((input, index) => {
    const line = make("p", "", sentence(input));
    const told = one.receipt?.inputs[index];
    if (told && known(told)) line.append(" ", make("span", "quiet", known(told)));
    said.append(line);
  });
  if (one.inputs.length > MOST_LINES) said.append(make("p", "quiet", `and ${one.inputs.length - MOST_LINES} more`));
  const took = one.receipt === null ? "" : ` · ${span(one.receipt.completed_at - one.at)}`;
  said.append(make("p", "meta", `${clock(one.at)}${took} · ${one.conversation_id} · epoch ${one.epoch}`));
  item.append(said, make("span", `badge ${tone}`, word));
  return item;
}

// -- commands and code ---------------------------------------------------------------------------

const KINDS = { shell: "shell", job: "background", code: "Python" };
const seen = new Map(); // call id → what of it is shown

/** Whether something runs. */
export async function lookAtCalls() {
  const { calls } = await get("/v1/calls");
  calls.reverse();
  $("nothing-run").hidden = calls.length > 0;
  const items = keep($("calls"), calls.map((one) => ({ id: one.call_id, made: () => callItem(one) })));
  for (const id of seen.keys()) if (!calls.some((one) => one.call_id === id)) seen.delete(id);
  for (const [index, one] of calls.entries()) {
    const state = `${one.state} ${one.end} ${one.outcomes.length}`;
    const over = one.state === "ended";
    tell(items[index], one);
    if (over && seen.get(one.call_id) === state) continue;
    await output(items[index], one.call_id);
    seen.set(one.call_id, state);
  }
  return calls.some((one) => one.state !== "ended");
}

function callItem(one) {
  const item = make("details", "call");
  item.open = one.state !== "ended";
  const head = make("summary");
  head.append(make("span", "kind", KINDS[one.kind] ?? one.kind), make("code", "line", one.asked.join(" ; ").split("\n")[0] || "–"), make("span", "badge"));
  const asked = make("pre", "asked", one.asked.join("\n"));
  const out = make("pre", "output");
  out.tabIndex = 0;
  out.setAttribute("role", "log");
  out.setAttribute("aria-live", "off");
  out.setAttribute("aria-label", "Output");
  item.append(head, asked, out, make("p", "meta"));
  return item;
}

function tell(item, one) {
  const badge = item.querySelector(".badge"), [tone, word] = ending(one);
  if (badge.textContent !== word) badge.textContent = word;
  badge.className = `badge ${tone}`;
  const took = (one.ended_at ?? Date.now()) - one.started_at;
  const notes = one.outcomes.map((o) => o.note).filter(Boolean).map(plain);
  const line = [clock(one.started_at), span(took), plain(one.conversation_id ?? "–"), `epoch ${one.epoch}`, ...notes].join(" · ");
  const meta = item.querySelector(".meta");
  if (meta.textContent !== line) meta.textContent = line;
}

function ending(one) {
  if (one.state === "running") return ["warn", "running"];
  if (one.state === "frozen") return ["warn", "held, while a person drives"];
  if (one.outcomes.some((o) => o.timed_out)) return ["bad", "took too long"];
  if (one.outcomes.some((o) => o.note)) return ["bad", "cancelled"];
  const failed = one.outcomes.find((o) => o.exit_code);
  if (failed) return ["bad", `exit ${failed.exit_code}`];
  return one.end === "ended" ? ["good", "ended well"] : ["bad", plain(one.end ?? "ended")];
}

async function output(item, id) {
  let told;
  try {
    told = await get(`/v1/calls/${encodeURIComponent(id)}`);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return; // it left the board in between
    throw error;
  }
  const out = item.querySelector(".output");
  const atEnd = out.scrollTop + out.clientHeight >= out.scrollHeight - 8;
  const pieces = told.output.map((piece) => make("span", piece.stream === "stderr" ? "stderr" : "", piece.text));
  if (told.omitted) pieces.unshift(make("span", "quiet", `… ${told.omitted} characters before\n`));
  out.replaceChildren(...pieces);
  out.hidden = pieces.length === 0;
  if (atEnd) out.scrollTop = out.scrollHeight;
}

// -- approvals -----------------------------------------------------------------------------------

/** How many wait. */
export async function lookForQuestions(complain) {
  const { configured, approvals } = await get("/v1/approvals");
  const nothing = configured ? "Nothing waits for you." : "Nobody is asked here: what needs an approval is refused.";
  $("nothing-asked").hidden = approvals.length > 0;
  if ($("nothing-asked").textContent !== nothing) $("nothing-asked").textContent = nothing;
  keep($("questions"), approvals.map((one) => ({ id: one.approval_id, made: () => question(one, complain) })));
  $("asks").classList.toggle("pending", approvals.length > 0);
  return approvals.length;
}

function question(one, complain) {
  const item = make("li", "question");
  item.append(make("p", "who", `${one.conversation_id} asks`));
  item.append(make("p", "meta", `${clock(one.asked_at)} · epoch ${one.epoch} · rule ${one.rule}`));
  if (one.reason) {
    const why = make("blockquote", "", one.reason);
    item.append(make("p", "meta", "Why, in its own words:"), why);
  }
  if (one.screenshot_id) item.append(thumbnail(one.screenshot_id, one.actions.flatMap(target), one.actions.map(sentence).join("; ")));
  const happens = make("ul", "happens");
  happens.append(...one.actions.map((action) => make("li", "", sentence(action))));
  happens.append(...one.commands.map((command) => { const li = make("li"); li.append(make("code", "", command)); return li; }));
  item.append(make("p", "meta", "If you approve:"), happens);
  const buttons = make("div", "buttons");
  for (const [word, approve] of [["Deny", false], ["Approve once", true]]) {
    const button = make("button", approve ? "primary" : "", word);
    button.type = "button";
    button.addEventListener("click", async () => {
      for (const each of buttons.children) each.disabled = true;
      try {
        await post(`/v1/approvals/${encodeURIComponent(one.approval_id)}`, { approve });
      } catch (error) {
        complain(error.message);
      }
      item.remove();
      await lookForQuestions(complain).catch(() => {});
    });
    buttons.append(button);
  }
  item.append(buttons);
  return item;
}
