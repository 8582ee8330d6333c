// One message on the page: what was said, what it cost, and what can be done with it.
import {$, h, icon, iconButton, copyText} from "./dom.js";
import {GrowingMarkdown} from "./markdown.js";

const number = n => n.toLocaleString("en");
const seconds = ms => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`);

// "38 tokens · 210 tok/s · first after 24 ms · 51 prompt tokens, 32 cached"
export function statsText(stats) {
  const parts = [];
  if (stats.tokens !== undefined) parts.push(`${number(stats.tokens)} token${stats.tokens === 1 ? "" : "s"}`);
  if (stats.rate) parts.push(`${number(+stats.rate.toFixed(stats.rate < 10 ? 1 : 0))} tok/s`);
  if (stats.firstMs) parts.push(`first after ${seconds(stats.firstMs)}`);
  if (stats.prompt !== undefined) parts.push(`${number(stats.prompt)} prompt tokens, ${number(stats.cached ?? 0)} cached`);
  return parts.join(" · ");
}

const ENDS = {length: "Stopped at the token limit", content_filter: "Withheld by the server", stopped: "Stopped"};

function endOf(node) {
  if (node.state === "stopped") return ENDS.stopped;
  if (node.finish === "length") return node.reason === "context" ? "The context is full" : ENDS.length;
  return "";
}

// Values of calls are shown indented where they are JSON, as they came while they are not.
function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// The view of a node. `on` does what its buttons say: edit, redo, turn, branch, goOn, retry, withoutImages.
export class MessageView {
  constructor(node, on) {
    this.node = node;
    this.on = on;
    this.calls = [];
    const user = node.role === "user";
    this.element = h("li", {class: "message " + (user ? "user" : "model"), "data-id": node.id},
      h("h3", {class: "visually-hidden"}, user ? "You" : "Model"));
    if (user) this.buildUser();
    else this.buildModel();
    this.foot = h("div", {class: "foot"});
    this.element.append(this.foot);
  }

  buildUser() {
    const {node} = this;
    this.bubble = h("div", {class: "bubble"},
      node.images?.length ? h("div", {class: "pictures"}, node.images.map((url, i) => h("img", {src: url, alt: `Image ${i + 1} of this message`}))) : null,
      node.text ? h("p", {class: "said"}, node.text) : null);
    this.element.append(this.bubble);
  }

  buildModel() {
    this.summary = h("span", {}, "Reasoning");
    this.reasoningText = h("div", {class: "md"});
    this.reasoning = h("details", {class: "reasoning", hidden: true},
      h("summary", {}, icon("bulb"), this.summary, icon("right")), this.reasoningText);
    this.reasoning.addEventListener("toggle", () => { this.toggled = this.reasoning.open !== this.autoOpen; });
    this.autoOpen = false;
    this.text = h("div", {class: "md answer"});
    this.waiting = h("p", {class: "waiting", hidden: true}, h("span", {}), h("span", {}), h("span", {}));
    this.callList = h("div", {class: "calls"});
    this.problem = h("div", {class: "problem", role: "group", "aria-label": "What went wrong", hidden: true});
    this.element.append(this.reasoning, this.text, this.waiting, this.callList, this.problem);
    this.growing = {text: new GrowingMarkdown(this.text), reasoning: new GrowingMarkdown(this.reasoningText)};
  }

  // Shows the node as it is now. `place`: {index, count} among its siblings; `busy`: an answer is under way.
  update({place, busy, last}) {
    if (this.node.role === "assistant") this.updateModel();
    this.updateFoot(place, busy, last);
  }

  updateModel() {
    const {node} = this;
    const running = node.state === "running";
    this.element.setAttribute("aria-busy", String(running));
    this.element.classList.toggle("running", running);
    this.growing.text.set(node.text);
    if (node.reasoning) this.updateReasoning(running);
    this.updateCalls();
    this.waiting.hidden = !running || Boolean(node.text || node.reasoning || node.calls?.length);
    this.updateProblem();
  }

  updateReasoning(running) {
    const {node} = this;
    this.reasoning.hidden = false;
    this.growing.reasoning.set(node.reasoning);
    const thinking = running && !node.text && !node.calls?.length;
    this.summary.textContent = thinking ? "Reasoning…"
      : node.stats?.reasoned ? `Reasoned, ${number(node.stats.reasoned)} tokens` : "Reasoning";
    this.reasoning.classList.toggle("thinking", thinking);
    if (this.toggled || this.reasoning.open === thinking) return;
    this.autoOpen = thinking;
    this.reasoning.open = thinking;
  }

  updateCalls() {
    const calls = this.node.calls ?? [];
    while (this.calls.length < calls.length) {
      const code = h("code", {});
      const head = h("figcaption", {}, icon("tool"), h("span", {class: "name"}, calls[this.calls.length].name), h("span", {class: "soft"}, "call, not run"));
      const button = iconButton("copy", "Copy the arguments", () => copyText(code.textContent, button));
      head.append(button);
      this.callList.append(h("figure", {class: "code call"}, head, h("pre", {tabindex: "0"}, code)));
      this.calls.push(code);
    }
    calls.forEach((call, i) => { this.calls[i].textContent = this.node.state === "running" ? call.arguments : prettyJson(call.arguments || "{}"); });
  }

  updateProblem() {
    const {problem} = this.node;
    this.problem.hidden = !problem;
    if (this.shownProblem === problem) return;
    this.shownProblem = problem;
    if (!problem) return this.problem.replaceChildren();
    const again = h("button", {type: "button", class: "quiet", onclick: () => this.on.retry(this.node)}, "Try again");
    const without = problem.code === "vision_unavailable"
      ? h("button", {type: "button", class: "quiet", onclick: () => this.on.withoutImages(this.node)}, "Send without images") : null;
    this.problem.replaceChildren(h("p", {}, h("strong", {}, problem.title), problem.text ? " " + problem.text : ""),
      h("p", {class: "soft mono"}, [problem.code, problem.requestId].filter(Boolean).join(" · ")),
      h("div", {class: "buttons"}, without, again));
  }

  updateFoot(place, busy, last) {
    const {node, on} = this;
    const focused = this.foot.contains(document.activeElement) ? document.activeElement.dataset.what : null;
    const add = (what, name, label, run) => {
      const button = iconButton(name, label, run);
      button.dataset.what = what;
      this.foot.append(button);
      return button;
    };
    this.foot.replaceChildren();
    if (node.state === "running") return;
    if (place.count > 1) {
      const before = add("back", "left", "Earlier version", () => on.turn(node, -1, "back"));
      this.foot.append(h("span", {class: "place", "aria-label": `Version ${place.index + 1} of ${place.count}`}, `${place.index + 1}/${place.count}`));
      const after = add("on", "right", "Later version", () => on.turn(node, 1, "on"));
      before.disabled = busy || place.index === 0;
      after.disabled = busy || place.index + 1 === place.count;
    }
    const copy = node.text ? add("copy", "copy", "Copy", () => copyText(node.text, copy)) : null;
    if (node.role === "user") add("edit", "edit", "Edit", () => on.edit(node)).disabled = busy;
    else add("redo", "redo", "Answer again", () => on.redo(node)).disabled = busy;
    add("branch", "branch", "New chat from here", () => on.branch(node));
    if (node.role === "assistant") this.addEnd(add, busy, last);
    if (focused) (this.foot.querySelector(`[data-what="${focused}"]:not(:disabled)`) ?? $("button", this.foot))?.focus();
  }

  addEnd(add, busy, last) {
    const {node, on} = this;
    const end = endOf(node);
    if (end && last && node.text && !node.calls?.length && !node.problem && node.reason !== "context")
      add("go-on", "play", "Continue this answer", () => on.goOn(node)).disabled = busy;
    const told = [end, node.stats ? statsText(node.stats) : ""].filter(Boolean).join(" · ");
    if (told) this.foot.append(h("span", {class: "stats"}, told));
  }

  focusButton(what) {
    (this.foot.querySelector(`[data-what="${what}"]:not(:disabled)`) ?? this.foot.querySelector("button:not(:disabled)"))?.focus();
  }

  // Replaces the bubble by a box; `done` gets the new text, or null.
  startEdit(done) {
    const box = h("textarea", {rows: "2", "aria-label": "Edit your message"});
    box.value = this.node.text;
    const finish = text => {
      form.replaceWith(this.bubble);
      this.foot.hidden = false;
      done(text);
    };
    const submit = () => { if (box.value.trim() || this.node.images?.length) finish(box.value); };
    const form = h("form", {class: "edit", onsubmit: event => { event.preventDefault(); submit(); }}, box,
      h("div", {class: "buttons"},
        h("button", {type: "button", class: "quiet", onclick: () => finish(null)}, "Cancel"),
        h("button", {type: "submit", class: "primary"}, "Send")));
    box.addEventListener("keydown", event => {
      if (event.isComposing) return;
      if (event.key === "Escape") { event.stopPropagation(); finish(null); }
      if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); submit(); }
    });
    const grow = () => {
      box.style.height = "auto";
      box.style.height = Math.min(box.scrollHeight + 2, innerHeight * 0.5) + "px";
    };
    box.addEventListener("input", grow);
    this.bubble.replaceWith(form);
    this.foot.hidden = true;
    grow();
    box.focus();
    box.setSelectionRange(box.value.length, box.value.length);
  }
}
