// The shop's behaviour, and its honest log: every event is reported in order, one POST at a time.
"use strict";
(() => {
  const { run, page } = document.body.dataset;
  const toggle = document.getElementById("toggle");
  const caption = document.getElementById("caption");
  const panel = document.getElementById("filters");
  const search = document.getElementById("search");
  const count = document.getElementById("count");
  const cards = [...document.querySelectorAll("#cards > li")];

  const queue = [];
  let sequence = 0;
  let sending = false;

  const report = (event) => {
    sequence += 1;
    queue.push({ n: sequence, ...event });
    send();
  };

  const send = async () => {
    if (sending) return;
    sending = true;
    for (let failures = 0; queue.length > 0 && failures < 5; ) {
      const events = queue.slice(0, 64);
      try {
        const answer = await fetch("/events", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ run, page, events }),
        });
        if (answer.status === 409) document.getElementById("notice").hidden = false;
        queue.splice(0, events.length);
      } catch {
        failures += 1; // the server drops what it has already taken, by n
        await new Promise((resume) => setTimeout(resume, 200 * failures));
      }
    }
    sending = false;
  };

  const narrow = () => {
    const wanted = search.value.trim().toLowerCase();
    let left = 0;
    for (const card of cards) {
      card.hidden = !card.querySelector("h3").textContent.toLowerCase().includes(wanted);
      if (!card.hidden) left += 1;
    }
    count.textContent = `${left} products`;
  };

  toggle.addEventListener("click", () => {
    const open = panel.hidden;
    panel.hidden = !open;
    toggle.setAttribute("aria-expanded", String(open));
    caption.textContent = open ? "Hide filters" : "Show filters";
    report({ type: "toggle", open });
  });
  search.addEventListener("input", () => {
    narrow();
    report({ type: "search", value: search.value });
  });
  for (const link of document.querySelectorAll('a[href="#"]')) {
    link.addEventListener("click", (event) => event.preventDefault());
  }
  narrow();
  // Two frames: the first has been painted by the time that the second begins.
  requestAnimationFrame(() => requestAnimationFrame(() => report({ type: "shown" })));
})();
