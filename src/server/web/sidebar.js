// The list of conversations: by day, searchable, each with its own small menu.
import {$, h, icon} from "./dom.js";

const DAY = 24 * 60 * 60 * 1000;

function dayOf(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return "Today";
  if (time >= midnight - DAY) return "Yesterday";
  if (time >= midnight - 6 * DAY) return "This week";
  return new Date(time).toLocaleDateString("en", {month: "long", year: "numeric"});
}

// `on`: open, rename, exportOne, exportText, remove; each gets a head {id, title, updated}.
export class Sidebar {
  constructor(on) {
    this.on = on;
    this.list = $("#conversations ul");
    this.heads = [];
    this.menu = null;  // id of the conversation whose menu is open
    $("#search").addEventListener("input", () => this.show());
  }

  set(heads, {current, live}) {
    Object.assign(this, {heads, current, live});
    this.show();
  }

  show() {
    const wanted = $("#search").value.trim().toLowerCase();
    const shown = this.heads.filter(head => head.title.toLowerCase().includes(wanted));
    const empty = $("#conversations .empty");
    empty.hidden = shown.length > 0;
    empty.textContent = this.heads.length ? "No title has these words." : "Conversations stay in this browser. None yet.";
    const focus = this.list.contains(document.activeElement) ? document.activeElement.dataset : null;
    const [id, what] = [focus?.id, focus?.what];
    this.list.replaceChildren();
    let day = "";
    for (const head of shown) {
      if (dayOf(head.updated) !== day) {
        day = dayOf(head.updated);
        this.list.append(h("li", {class: "day"}, day));
      }
      this.list.append(this.item(head));
    }
    if (id) this.find(id, what)?.focus();
  }

  find(id, what) {
    return [...this.list.querySelectorAll("button")].find(button => button.dataset.id === id && button.dataset.what === what);
  }

  item(head) {
    const open = this.menu === head.id;
    const item = h("li", {class: "conversation" + (open ? " open" : "")},
      h("button", {type: "button", class: "name", "data-id": head.id, "data-what": "open", title: head.title,
        "aria-current": head.id === this.current ? "page" : null, onclick: () => this.on.open(head)},
      this.live.has(head.id) ? h("span", {class: "dot", "data-state": "busy", role: "img", "aria-label": "answering"}) : null,
      h("span", {}, head.title)),
      h("button", {type: "button", class: "icon more", "data-id": head.id, "data-what": "menu", "aria-expanded": String(open),
        "aria-label": `More for ${head.title}`, onclick: () => this.toggle(head.id)}, icon("more")));
    if (open) item.append(this.actions(head));
    return item;
  }

  actions(head) {
    const row = (what, label, run, extra = "") => h("button", {type: "button", class: "quiet " + extra, "data-id": head.id, "data-what": what,
      onclick: () => { this.menu = null; run(head); this.show(); }}, label);
    const box = h("div", {class: "menu", role: "group", "aria-label": `More for ${head.title}`},
      row("rename", "Rename", this.on.rename), row("text", "As Markdown", this.on.exportText),
      row("export", "Export", this.on.exportOne), row("delete", "Delete", this.on.remove, "danger"));
    box.addEventListener("keydown", event => { if (event.key === "Escape") { event.stopPropagation(); this.toggle(head.id); } });
    return box;
  }

  toggle(id) {
    this.menu = this.menu === id ? null : id;
    this.show();
    (this.menu ? this.find(id, "rename") : this.find(id, "menu"))?.focus();
  }
}
