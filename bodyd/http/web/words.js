// Inputs and receipts in words. What is known is said, and nothing more.

const BUTTON = { left: "", right: "right-", middle: "middle-", wheel: "middle-", back: "back-", forward: "forward-" };
const keysOf = (keys) => (keys?.length ? ` with ${keys.map(keyName).join(" ")}` : "");
const keyName = (key) => key.replace(/_[LR]$/, "").replace("Control", "Ctrl").replace(/^[a-z]$/, (letter) => letter.toUpperCase());
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const many = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** One input, as a wish ("Click at 3, 4"): of the timeline, where texts are lengths, or of an approval. */
export function sentence(input) {
  const at = input.x === undefined ? "" : ` at ${input.x}, ${input.y}`;
  const button = BUTTON[input.button] ?? "";
  switch (input.type) {
    case "click": return capital(`${button}click${at}${keysOf(input.keys)}`);
    case "double_click": return capital(`${button}double click${at}${keysOf(input.keys)}`);
    case "triple_click": return capital(`${button}triple click${at}${keysOf(input.keys)}`);
    case "element": return `Click the element ${input.id}`;
    case "move": return `Move to ${input.x}, ${input.y}`;
    case "scroll": return `Scroll ${scrolled(input)}${at}`;
    case "drag": return dragged(input);
    case "button_down": return `Press the ${input.button ?? "left"} button${at}`;
    case "button_up": return `Release the ${input.button ?? "left"} button${at}`;
    case "keypress": return `Press ${input.keys.map(keyName).join(" ")}`;
    case "hold": return `Hold ${input.keys.map(keyName).join(" ")} for ${input.duration_ms} ms`;
    case "type": return typeof input.text === "string" ? `Type “${input.text}”` : `Type ${many(input.text.length, "character")}`;
    case "paste": return typeof input.text === "string" ? `Paste “${input.text}”` : `Paste ${many(input.text.length, "character")}`;
    case "wait": return `Wait ${input.ms ?? 2000} ms`;
    case "screenshot": return "Look";
    default: return capital(String(input.type).replaceAll("_", " "));
  }
}

function scrolled({ scroll_x: x = 0, scroll_y: y = 0 }) {
  const ways = [];
  if (y) ways.push(`${y > 0 ? "down" : "up"} ${Math.abs(y)}`);
  if (x) ways.push(`${x > 0 ? "right" : "left"} ${Math.abs(x)}`);
  return ways.join(", ") || "by nothing";
}

function dragged(input) {
  const [from, to] = input.path ? [input.path[0], input.path.at(-1)].map((p) => [p.x, p.y]) : [input.from, input.to];
  return `Drag from ${from.join(", ")} to ${to.join(", ")}`;
}

/** Where an input goes, in pixels of the screenshot that it names. */
export function target(input) {
  if (input.x !== undefined) return [[input.x, input.y]];
  if (input.path) return [input.path[0], input.path.at(-1)].map((p) => [p.x, p.y]);
  return input.from ? [input.from, input.to] : [];
}

const REASONS = {
  refused: "refused", interrupted: "interrupted", not_attempted: "not begun, for what came before failed",
  display_lost: "the display was lost", focus_moved: "the focus moved", interference: "something else sent input, too",
  recovered: "the daemon was killed in the middle", stale_screenshot: "what it was aimed at had changed",
};
const EVIDENCE = (name) => String(name).replaceAll("_", " ");

/** [tone, word] of a whole batch, by delivery: that is what callers decide by. */
export function verdict(receipt) {
  if (receipt === null) return ["warn", "running"];
  const outcomes = receipt.inputs.map((one) => one.delivery.outcome);
  if (outcomes.includes("uncertain")) return ["warn", "not known"];
  if (outcomes.includes("failed")) return ["bad", "not all sent"];
  return receipt.inputs.some((one) => one.effect.outcome === "failed") ? ["warn", "sent, no effect"] : ["good", "sent"];
}

/** What is known of one input, in a few words. */
export function known({ delivery, effect }) {
  const why = delivery.reason ? REASONS[delivery.reason] ?? delivery.reason.replaceAll("_", " ") : "";
  if (delivery.outcome === "failed") return `${delivery.sent.units} of ${delivery.sent.of} sent${why ? `: ${why}` : ""}`;
  if (delivery.outcome === "uncertain") return `how much was sent is not known${why ? `: ${why}` : ""}`;
  if (effect.outcome === "confirmed") return `seen to work${effect.evidence ? ` (${EVIDENCE(effect.evidence)})` : ""}`;
  if (effect.outcome === "failed") return "what was expected did not come";
  if (effect.outcome === null) return "";
  return effect.changed ? "the screen changed; why can't be read back" : "no effect could be read back";
}
