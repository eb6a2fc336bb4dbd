// SPDX-License-Identifier: Apache-2.0
// What the page can do more with a script. Without it every form still works: nothing here is the only way.
"use strict";

const WAIT_BEFORE_HINT = 300; // milliseconds
const POLL_EVERY = 2000;
const LOOK_EVERY = 500;

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// What is shown to those with a script and to those without.
function withScript(within, there = true) {
  for (const shown of all("[data-with-script]", within)) shown.hidden = !there;
  for (const shown of all("[data-without-script]", within)) shown.hidden = there;
}

// ---- Pieces of pages that the server sends ----

// The body of a piece, or null when the person has to sign in again: then that page is on its way.
async function piece(address, options = {}) {
  const answer = await fetch(address, { ...options, headers: { "X-Piece": "1" }, credentials: "same-origin" });
  if (answer.status === 401) {
    location.assign("/login");
    return null;
  }
  return new DOMParser().parseFromString(await answer.text(), "text/html").body;
}

function send(form, options = {}) {
  return piece(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), ...options });
}

function failure(text) {
  const shown = document.createElement("section");
  shown.className = "problem";
  shown.setAttribute("role", "alert");
  shown.append(Object.assign(document.createElement("p"), { textContent: text }));
  return shown;
}

// ---- Ask ----

let asking = null; // the request on its way; a newer one replaces it

async function ask(form) {
  asking?.abort();
  const mine = (asking = new AbortController());
  const reply = one("#reply"), waiting = one("[data-waiting]"), box = one("#question");
  box.value = form.elements.question.value;
  const hint = setTimeout(() => { waiting.hidden = false; }, WAIT_BEFORE_HINT);
  reply.setAttribute("aria-busy", "true");
  try {
    const body = await send(form, { signal: mine.signal });
    if (body) showReply(body, reply);
  } catch (problem) {
    if (problem.name === "AbortError") return;
    reply.replaceChildren(failure("The page does not answer. Check the connection and ask again."));
  } finally {
    clearTimeout(hint);
    if (asking === mine) {
      waiting.hidden = true;
      reply.removeAttribute("aria-busy");
    }
  }
}

function showReply(body, reply) {
  const pieces = all("[data-piece]", body);
  if (!pieces.length) reply.replaceChildren(...body.childNodes);
  for (const fresh of pieces) one(`#${fresh.id}`).replaceChildren(...fresh.childNodes);
  one("main .said")?.remove();
  renewReply();
}

const pause = (milliseconds) => new Promise((go) => setTimeout(go, milliseconds));

async function modelsAreLoaded() {
  const answer = await fetch("/api/health");
  return (await answer.json()).loaded;
}

// An answer by keywords gives way to the models' own as soon as these are loaded. What is being typed stays.
async function renewReply() {
  const reply = one("#reply"), form = reply && one("form[data-again]", reply);
  if (!form) return;
  withScript(form);
  while (form.isConnected) {
    await pause(LOOK_EVERY);
    try {
      if (document.hidden || !(await modelsAreLoaded())) continue;
      const body = await send(form);
      if (!body || !form.isConnected) return;
      if (!all("[data-piece]", body).length) return withScript(form, false); // refused: the person may try
      const focused = reply.contains(document.activeElement);
      showReply(body, reply);
      if (focused) reply.focus();
      return;
    } catch {
      await pause(POLL_EVERY); // the page is being restarted, perhaps; it is asked again
    }
  }
}

async function judge(form) {
  const place = form.closest("[data-judging]");
  for (const button of all("button", place)) button.disabled = true;
  try {
    const body = await send(form);
    if (!body) return;
    place.replaceChildren(...body.childNodes);
    place.tabIndex = -1;
    place.focus();
  } catch {
    form.submit(); // the plain way, which shows what is wrong
  }
}

// ---- Forms that take a while ----

function busy(form) {
  const button = one("button[type=submit]", form);
  button.dataset.label = button.textContent;
  button.textContent = form.dataset.busy;
  // Later, because a button that is disabled now would be left out of what is sent.
  setTimeout(() => { button.disabled = true; });
}

addEventListener("pageshow", () => {
  for (const button of all("form[data-busy] button[data-label]")) {
    button.disabled = false;
    button.textContent = button.dataset.label;
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("[data-answer], [data-judge]")) event.preventDefault();
  if (form.matches("[data-answer]")) ask(form);
  if (form.matches("[data-judge]")) judge(form);
  if (form.matches("[data-busy]")) busy(form);
});

// ---- Something that is going on ----

// What has an id keeps the focus, and stays open, though it is exchanged.
function renew(shown, fresh) {
  const focused = shown.contains(document.activeElement) ? document.activeElement.id : "";
  for (const details of all("details[id][open]", shown)) one(`#${details.id}`, fresh)?.setAttribute("open", "");
  shown.replaceWith(fresh);
  if (focused) one(`#${focused}`)?.focus();
}

async function poll() {
  const shown = one("[data-poll]");
  if (shown && !document.hidden) {
    try {
      const body = await piece(shown.dataset.poll);
      const fresh = body && one(`#${shown.id}`, body);
      if (fresh) renew(shown, fresh);
    } catch {
      // the page is being restarted, perhaps; it is asked again
    }
  }
  if (one("[data-poll]")) setTimeout(poll, POLL_EVERY);
}

// ---- Keys ----

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const box = one("[data-slash]");
  event.preventDefault();
  if (box) {
    box.focus();
    box.select();
  } else {
    location.assign("/");
  }
});

// ---- Choosing an answer in a document ----

// Strings here are UTF-16, the server counts code points: an emoji is two of the first and one of the second.
const codePoints = (text) => {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
};

// Does the work once things have been quiet for a while.
const after = (milliseconds, work) => {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
};

class Chooser {
  constructor(form) {
    this.form = form;
    this.box = one("[data-choose]", form);
    this.words = one("[data-words]", form);
    this.found = one("[data-found]", form);
    this.text = this.box.textContent;
    this.chosen = null; // { start, end } in UTF-16 units of the text
    this.anchor = this.head = null; // where a choice by keys began and where it has come to
    this.cuts = {};
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.words.addEventListener("input", after(200, () => this.lookUp()));
    document.addEventListener("selectionchange", after(80, () => this.takeSelection()));
    const before = one("[data-before]", this.box);
    if (before) this.scrollTo(before.getBoundingClientRect());
  }

  takeSelection() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed || this.byKeys) return;
    const range = selection.getRangeAt(0);
    if (!range.intersectsNode(this.box)) return;
    const from = this.box.contains(range.startContainer) ? this.unitsBefore(range.startContainer, range.startOffset) : 0;
    const to = this.box.contains(range.endContainer) ? this.unitsBefore(range.endContainer, range.endOffset) : this.text.length;
    this.anchor = this.head = null;
    this.choose(from, to);
  }

  unitsBefore(node, offset) {
    const range = document.createRange();
    range.selectNodeContents(this.box);
    range.setEnd(node, offset);
    return range.toString().length;
  }

  // White space around the answer is not part of it.
  choose(start, end) {
    while (start < end && /\s/.test(this.text[start])) start += 1;
    while (end > start && /\s/.test(this.text[end - 1])) end -= 1;
    if (start === end) return;
    this.chosen = { start, end };
    this.words.value = this.text.slice(start, end);
    this.note(start, end);
    this.say(`Selected: ${this.words.value}`, true);
  }

  note(start, end) {
    const first = codePoints(this.text.slice(0, start));
    one("[data-start]", this.form).value = first;
    one("[data-end]", this.form).value = first + codePoints(this.text.slice(start, end));
    this.paint(start, end);
  }

  forget() {
    this.chosen = this.anchor = this.head = null;
    one("[data-start]", this.form).value = one("[data-end]", this.form).value = "";
    globalThis.CSS?.highlights?.delete("chosen");
  }

  // What everybody sees in the field anyway is said to those who listen.
  say(words, onlyAloud = false) {
    this.found.textContent = words.length > 200 ? `${words.slice(0, 200)}…` : words;
    this.found.classList.toggle("unseen", onlyAloud);
  }

  // Browsers drop a selection when a field gets the focus; a highlight stays.
  paint(start, end) {
    if (globalThis.CSS?.highlights) CSS.highlights.set("chosen", new Highlight(this.range(start, end)));
  }

  range(start, end) {
    const range = document.createRange();
    const walker = document.createTreeWalker(this.box, NodeFilter.SHOW_TEXT);
    let before = 0;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const after = before + node.length;
      if (start >= before && start <= after) range.setStart(node, start - before);
      if (end >= before && end <= after) {
        range.setEnd(node, end - before);
        break;
      }
      before = after;
    }
    return range;
  }

  lookUp() {
    const words = this.words.value.trim();
    this.forget();
    if (!words) return this.say("");
    const first = this.text.indexOf(words);
    if (first < 0) return this.say("These words do not stand in the text exactly like this.");
    if (this.text.indexOf(words, first + 1) >= 0) return this.say("These words stand here more than once: you will be asked which place you mean.");
    this.chosen = { start: first, end: first + words.length };
    this.note(first, first + words.length);
    this.scrollTo(this.range(first, first + words.length).getBoundingClientRect());
    this.say("Found in the text.");
  }

  key(event) {
    const step = { ArrowRight: ["word", 1], ArrowLeft: ["word", -1], ArrowDown: ["sentence", 1], ArrowUp: ["sentence", -1] }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (step) this.step(...step, event.shiftKey);
    else if (event.key === "Enter" && this.chosen) one("[data-save]", this.form).focus();
    else if (event.key === "Escape") this.clear();
    else return;
    event.preventDefault();
  }

  clear() {
    this.forget();
    getSelection().removeAllRanges();
    this.words.value = "";
    this.say("");
  }

  step(kind, direction, extend) {
    const cuts = this.cutsOf(kind);
    const head = this.head ?? this.chosen ?? this.beginning();
    const next = direction > 0
      ? cuts.find((cut) => cut.end > head.end)
      : cuts.findLast((cut) => cut.start < head.start);
    if (!next) return;
    if (!extend || !this.anchor) this.anchor = extend ? this.chosen ?? next : next;
    this.head = next;
    const start = Math.min(this.anchor.start, next.start), end = Math.max(this.anchor.end, next.end);
    this.choose(start, end);
    this.select(start, end, next);
  }

  // The first step begins at the answer that was given before, or else at what is in sight.
  beginning() {
    const before = one("[data-before]", this.box);
    if (!before) return { start: 0, end: 0 };
    const start = this.unitsBefore(before, 0);
    return { start, end: start };
  }

  select(start, end, inSight) {
    this.byKeys = true;
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(this.range(start, end));
    this.scrollTo(this.range(inSight.start, inSight.end).getBoundingClientRect());
    setTimeout(() => { this.byKeys = false; }, 200);
  }

  cutsOf(kind) {
    this.cuts[kind] ??= [...new Intl.Segmenter(document.documentElement.lang, { granularity: kind }).segment(this.text)]
      .filter((cut) => (kind === "word" ? cut.isWordLike : cut.segment.trim()))
      .map((cut) => ({ start: cut.index, end: cut.index + cut.segment.trimEnd().length }));
    return this.cuts[kind];
  }

  scrollTo(place) {
    const box = this.box.getBoundingClientRect();
    if (place.top < box.top + 20 || place.bottom > box.bottom - 20) this.box.scrollTop += place.top - box.top - box.height / 3;
  }
}

// ---- When the page is there ----

// On a telephone the menu is wider than the screen. Not by scrollIntoView, which would also leave the place one came for.
const here = one(".top [aria-current]");
if (here) here.closest("nav").scrollLeft = here.offsetLeft + here.offsetWidth / 2 - innerWidth / 2;

withScript(document);
renewReply();
for (const form of all("form[data-correct]")) if (one("[data-choose]", form)) new Chooser(form);
one("[data-question]")?.addEventListener("input", (event) => {
  for (const copy of all("[data-question-copy]")) copy.value = event.target.value;
});
if (one("[data-poll]")) setTimeout(poll, POLL_EVERY);
