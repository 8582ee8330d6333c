// Small helpers that make and find elements. Text becomes text nodes: no string is ever parsed as markup.

export const $ = (selector, root = document) => root.querySelector(selector);

// h("button", {class: "icon", onclick: f, hidden: true, "aria-label": "x"}, "text", node, null)
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

const SVG = "http://www.w3.org/2000/svg";
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "i");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", "#i-" + name);
  svg.append(use);
  return svg;
}

export function setIcon(button, name) {
  button.querySelector("use").setAttribute("href", "#i-" + name);
}

// A button that is an icon and a name for those who do not see it.
export function iconButton(name, label, onclick, extra = "") {
  return h("button", {type: "button", class: "icon " + extra, "aria-label": label, title: label, onclick}, icon(name));
}

// Puts text on the clipboard and says so on the button for a moment.
export async function copyText(text, button) {
  const before = button.getAttribute("aria-label");
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text);
  }
  announce(done ? "Copied" : "Copying failed");
  setIcon(button, done ? "check" : "close");
  setTimeout(() => {
    setIcon(button, "copy");
    button.setAttribute("aria-label", before);
  }, 1500);
}

// The clipboard interface exists on secure origins alone; a page of the local network is none.
function copyBySelection(text) {
  const area = h("textarea", {class: "visually-hidden", "aria-hidden": "true"});
  area.value = text;
  const focused = document.activeElement;
  (document.querySelector("dialog[open]") || document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}

// The one live region. A repeated text is told again.
export function announce(text) {
  const live = $("#live");
  live.textContent = "";
  requestAnimationFrame(() => { live.textContent = text; });
}

// Asks one question in a dialog; resolves to true, the typed text, or null.
export function ask({title, text = "", ok = "OK", danger = false, value}) {
  const dialog = $("#ask");
  $("#ask-title").textContent = title;
  $("#ask-text").textContent = text;
  $("#ask-text").hidden = !text;
  const input = $("#ask-input");
  input.hidden = value === undefined;
  input.value = value ?? "";
  $("#ask-ok").textContent = ok;
  $("#ask-ok").classList.toggle("danger", danger);
  return new Promise(resolve => {
    let answer = null;
    const form = $("form", dialog);
    const submit = event => {
      event.preventDefault();
      answer = value === undefined ? true : input.value;
      dialog.close();
    };
    const cancel = () => dialog.close();
    form.addEventListener("submit", submit);
    $("#ask-cancel").addEventListener("click", cancel);
    dialog.addEventListener("close", () => {
      form.removeEventListener("submit", submit);
      $("#ask-cancel").removeEventListener("click", cancel);
      resolve(answer);
    }, {once: true});
    dialog.showModal();
    if (value !== undefined) input.select();
  });
}

export function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  h("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
