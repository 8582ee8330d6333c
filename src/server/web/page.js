// The chat page: which conversation is shown, what is under way, and what every control does.
import {$, h, announce, ask, download} from "./dom.js";
import * as api from "./api.js";
import * as store from "./store.js";
import * as talk from "./conversation.js";
import {answer, problemOf} from "./answer.js";
import {Images, imagesOf} from "./images.js";
import {MessageView} from "./message.js";
import {Sidebar} from "./sidebar.js";
import {Settings, reasoningChoices} from "./settings.js";

const SAVE_EVERY_MS = 2000;
const NEAR_END = 60;  // pixels from the end that still count as "at the end"
const STARTERS = ["What is the capital of France?", "Tell me a short story.", "What is 3 plus 4?", "What is the opposite of hot?"];

const prompt = $("#prompt");
const scroller = $("#scroll");

let shown = talk.create();     // the conversation on the page
const live = new Map();        // id → {conversation, node, controller, view}: answers under way
const views = new Map();       // node id → MessageView, of the shown path
let props = null;
let following = true;          // the view stays at the end while an answer grows

// ---------------------------------------------------------------- choices of this browser

const page = {
  get: name => { try { return localStorage.getItem("flare-" + name) ?? "auto"; } catch { return "auto"; } },
  set(name, value) {
    try { localStorage.setItem("flare-" + name, value); } catch { /* for this visit only */ }
    if (name === "theme" && value === "auto") delete document.documentElement.dataset.theme;
    else if (name === "theme") document.documentElement.dataset.theme = value;
    if (name === "enter") showHint();
  },
};

const isTouch = matchMedia("(pointer: coarse)");
const enterSends = () => (page.get("enter") === "auto" ? !isTouch.matches : page.get("enter") === "send");
function showHint() {
  $("#hint").textContent = enterSends() ? "Enter sends, Shift Enter starts a line" : isTouch.matches ? "" : "Ctrl Enter sends";
}

// ---------------------------------------------------------------- notices and the server's state

function notice(text) {
  $("#notice").hidden = !text;
  $("#notice p").textContent = text ?? "";
  if (text) announce(text);
}

function setState(state, label) {
  $("#state").dataset.state = state;
  $("#state").setAttribute("aria-label", label);
  $("#state").title = label;
}

let asking = null;
// Asks for the key until there is one or the person has had enough: true if there is.
function askKey(wrong) {
  asking ??= new Promise(resolve => {
    const dialog = $("#key-dialog");
    $("#key").value = "";
    $("#key-error").hidden = !wrong;
    $("#key-error").textContent = wrong ? "The server does not take this key." : "";
    const submit = event => {
      event.preventDefault();
      if (!$("#key").value.trim()) return;
      api.key.set($("#key").value.trim());
      dialog.returnValue = "given";
      dialog.close("given");
    };
    const cancel = () => dialog.close("");
    $("form", dialog).addEventListener("submit", submit);
    $("#key-cancel").addEventListener("click", cancel);
    dialog.addEventListener("close", () => {
      $("form", dialog).removeEventListener("submit", submit);
      $("#key-cancel").removeEventListener("click", cancel);
      asking = null;
      resolve(dialog.returnValue === "given");
    }, {once: true});
    dialog.returnValue = "";
    dialog.showModal();
  });
  return asking;
}

let connecting = null;
const connect = () => (connecting ??= tryToConnect().finally(() => { connecting = null; }));

// Reads /props, again and again while the model loads or the server is away.
async function tryToConnect() {
  for (let pause = 500; ; pause = Math.min(pause * 1.5, 10000)) {
    try {
      setProps(await api.props());
      return;
    } catch (error) {
      if (error.status === 401) {
        setState("off", "a key is needed");
        if (await askKey(Boolean(api.key.get()))) continue;
        notice("This server asks for a key. It is asked for again with the next message.");
        return;
      }
      const loading = error.code === "model_loading";
      setState(loading ? "loading" : "off", loading ? "the model is loading" : "not reachable");
      $("#model").replaceChildren(h("option", {}, loading ? "loading…" : "not reachable"));
      $("#about").textContent = loading ? "The model is still loading; you can write meanwhile." : error.message;
      await new Promise(resolve => setTimeout(resolve, pause));
    }
  }
}

function setProps(said) {
  props = said;
  setState("ready", "ready");
  const names = props.models ?? [props.model];
  const select = $("#model");
  select.replaceChildren(...names.map(name => h("option", {value: name}, name)));
  select.disabled = names.length < 2;
  select.value = names.includes(page.get("model")) ? page.get("model") : names[0];
  const facts = [`${names[0]} answers`, props.modalities?.vision ? "and sees images" : null].filter(Boolean).join(" ");
  $("#about").textContent = `${facts}, with room for ${props.default_generation_settings?.n_ctx?.toLocaleString("en") ?? "?"} tokens.`;
  const choices = reasoningChoices(props.reasoning);
  $("#thinking").hidden = !choices.length;
  $("#thinking-level").replaceChildren(...choices.map(([value, label]) => h("option", {value}, label)));
  settings.setProps(props);
  showControls();
  showImageNote();
}

// ---------------------------------------------------------------- storing

let refreshing = Promise.resolve();
function refreshList() {
  refreshing = refreshing.then(async () => {
    sidebar.set(await store.heads(), {current: shown.id, live});
  }).catch(() => notice("This browser stores nothing for this page: conversations are lost when it closes."));
  return refreshing;
}

const isEmpty = conversation => !conversation.nodes.root.children.length;

async function persist(conversation) {
  if (isEmpty(conversation) || deleted.has(conversation.id)) return;
  try {
    await store.save(structuredClone(conversation));
    if (unsaved.delete(conversation.id) && !unsaved.size) notice(null);
  } catch (error) {
    unsaved.add(conversation.id);
    const why = error instanceof store.FullError ? error.message : `The browser says: ${error?.message ?? error}.`;
    notice(`“${conversation.title}” is not saved. ${why} Export it, or delete conversations that you no longer need.`);
  }
  await refreshList();
}
const unsaved = new Set();
const deleted = new Set();  // an answer that ends later must not bring them back

const saving = new Map();
function persistSoon(conversation) {
  if (saving.has(conversation.id)) return;
  saving.set(conversation.id, setTimeout(() => {
    saving.delete(conversation.id);
    persist(conversation);
  }, SAVE_EVERY_MS));
}
function touch(conversation) {
  conversation.updated = Date.now();
  clearTimeout(saving.get(conversation.id));
  saving.delete(conversation.id);
  return persist(conversation);
}

// ---------------------------------------------------------------- showing

function show(conversation) {
  shown = conversation;
  history.replaceState(null, "", isEmpty(conversation) ? location.pathname : "#" + conversation.id);
  render();
  following = true;
  toEnd();
  refreshList();
  prompt.focus({preventScroll: true});
}

// Makes the list of messages anew, with the views of nodes that stay.
function render() {
  const nodes = talk.path(shown);
  const kept = new Set(nodes.map(node => node.id));
  for (const [id, view] of views) if (!kept.has(id) || view.node !== shown.nodes[id]) views.delete(id);
  const elements = nodes.map(node => {
    if (!views.has(node.id)) views.set(node.id, new MessageView(node, actions));
    return views.get(node.id).element;
  });
  const list = $("#messages");
  const system = shown.settings.system.trim();
  const head = system ? [h("li", {class: "system"}, h("button", {type: "button", class: "quiet", onclick: () => settings.open("#system")},
    h("strong", {}, "System"), " ", system.length > 160 ? system.slice(0, 160) + "…" : system))] : [];
  const wanted = [...head, ...elements];
  const same = !head.length && list.children.length === wanted.length && wanted.every((element, i) => list.children[i] === element);
  if (!same) list.replaceChildren(...wanted);
  $("#welcome").hidden = nodes.length > 0;
  $("#title").textContent = shown.title;
  document.title = isEmpty(shown) ? "Flare" : `${shown.title} · Flare`;
  nodes.forEach(node => updateView(node));
  showControls();
}

function updateView(node) {
  const view = views.get(node.id);
  if (!view || shown.nodes[node.id] !== node) return;
  const all = talk.siblings(shown, node);
  view.update({place: {index: all.indexOf(node.id), count: all.length}, busy: live.has(shown.id), last: !node.shown});
}

function showControls() {
  const busy = live.has(shown.id);
  const hadFocus = document.activeElement === $("#stop");
  $("#stop").hidden = !busy;
  $("#send").hidden = busy;
  $("#send").disabled = !prompt.value.trim() && !images.urls.length;
  $("#thinking-level").value = shown.settings.thinking;
  if ($("#thinking-level").selectedIndex < 0) $("#thinking-level").value = "";
  $("#thinking").classList.toggle("chosen", $("#thinking-level").value !== "");
  if (!busy && hadFocus) prompt.focus();
}

function showImageNote() {
  const blind = images.urls.length > 0 && props && !props.modalities?.vision;
  $("#image-note").hidden = !blind;
  $("#image-note").textContent = blind ? `${$("#model").value} reads text only and will refuse images.` : "";
}

const distanceToEnd = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
function toEnd() {
  scroller.scrollTop = scroller.scrollHeight;
}
scroller.addEventListener("scroll", () => {
  following = distanceToEnd() < NEAR_END;
  $("#to-end").hidden = following;
}, {passive: true});
$("#to-end").addEventListener("click", () => { following = true; toEnd(); prompt.focus({preventScroll: true}); });
new ResizeObserver(() => { if (following) toEnd(); }).observe($("#messages"));

// ---------------------------------------------------------------- answering

// One redraw a frame, and fewer while the answer is long.
function redrawer(conversation, node) {
  let waiting = false;
  let drawn = 0;
  const draw = () => {
    waiting = false;
    drawn = performance.now();
    if (shown === conversation) updateView(node);
  };
  return () => {
    if (waiting) return;
    waiting = true;
    const pause = Math.min(250, node.text.length / 400) - (performance.now() - drawn);
    if (pause > 16) setTimeout(draw, pause);
    else requestAnimationFrame(draw);
  };
}

async function run(conversation, node, {goOn = false} = {}) {
  const controller = new AbortController();
  live.set(conversation.id, {conversation, node, controller});
  node.state = "running";
  const draw = redrawer(conversation, node);
  if (shown === conversation) render();
  announce("Answering");
  persist(conversation);
  const changed = () => {
    draw();
    persistSoon(conversation);
  };
  try {
    await answer(conversation, node, {model: $("#model").value, signal: controller.signal, changed, goOn});
  } catch (error) {
    // Asked for a key: with one, the same again.
    if (await askKey(Boolean(api.key.get()))) {
      if (!props) connect();
      live.delete(conversation.id);
      return run(conversation, node, {goOn});
    }
    node.problem = problemOf(error);
  }
  live.delete(conversation.id);
  if (node.problem?.code === "network" || node.problem?.code === "model_loading") connect();
  else if (!props) connect();
  if (shown === conversation) render();
  announce(spoken(node));
  await touch(conversation);
}

// What a listener hears at the end.
function spoken(node) {
  if (node.problem) return `${node.problem.title} ${node.problem.text}`;
  const calls = (node.calls ?? []).map(call => `Call of ${call.name}.`).join(" ");
  return `${node.state === "stopped" ? "Stopped." : "Answer:"} ${node.text} ${calls}`.slice(0, 3000);
}

function say(text, pictures, parent) {
  const conversation = shown;
  const fields = {role: "user", text, time: Date.now()};
  if (pictures.length) fields.images = pictures;
  const question = talk.add(conversation, parent, fields);
  talk.retitle(conversation);
  history.replaceState(null, "", "#" + conversation.id);
  following = true;
  answerTo(conversation, question);
}

function answerTo(conversation, question) {
  const node = talk.add(conversation, question.id, {role: "assistant", text: "", time: Date.now(), state: "running"});
  run(conversation, node).catch(error => notice(`The page stumbled: ${error.message}`));
}

function send() {
  const text = prompt.value;
  if (live.has(shown.id) || (!text.trim() && !images.urls.length)) return;
  const pictures = images.take();
  prompt.value = "";
  keepDraft();
  growPrompt();
  say(text, pictures, talk.path(shown).at(-1)?.id ?? "root");
  prompt.focus({preventScroll: true});
}

function stop() {
  live.get(shown.id)?.controller.abort();
}

function again(node) {
  Object.assign(node, {text: "", state: "running"});
  for (const name of ["reasoning", "calls", "stats", "problem", "finish", "reason"]) delete node[name];
  views.delete(node.id);
  run(shown, node);
}

const actions = {
  edit(node) {
    views.get(node.id).startEdit(text => {
      if (text !== null) say(text, node.images ?? [], node.parent);
      else views.get(node.id).focusButton("edit");
    });
  },
  redo: node => answerTo(shown, shown.nodes[node.parent]),
  retry: node => again(node),
  withoutImages(node) {
    const question = shown.nodes[node.parent];
    say(question.text, [], question.parent);
  },
  goOn: node => run(shown, node, {goOn: true}),
  turn(node, step, what) {
    if (!talk.turn(shown, node, step)) return;
    talk.retitle(shown);
    render();
    views.get(shown.nodes[node.parent].shown)?.focusButton(what);
    touch(shown);
  },
  async branch(node) {
    const copy = talk.branch(shown, node);
    show(copy);
    announce("A new chat with everything up to here");
    await touch(copy);
  },
};

// ---------------------------------------------------------------- the message box

function growPrompt() {
  prompt.style.height = "auto";
  prompt.style.height = Math.min(prompt.scrollHeight, Math.max(96, innerHeight * 0.35)) + "px";
}
function keepDraft() {
  try { sessionStorage.setItem("flare-draft", prompt.value); } catch { /* too long to keep */ }
}

prompt.addEventListener("input", () => { growPrompt(); showControls(); keepDraft(); });
prompt.addEventListener("keydown", event => {
  if (event.isComposing) return;
  if (event.key === "Enter" && !event.shiftKey && !event.altKey && (event.ctrlKey || event.metaKey || enterSends())) {
    event.preventDefault();
    send();
  }
  if (event.key === "ArrowUp" && !prompt.value && !live.has(shown.id)) {
    const last = talk.path(shown).findLast(node => node.role === "user");
    if (last) {
      event.preventDefault();
      actions.edit(last);
    }
  }
});
$("#composer").addEventListener("submit", event => { event.preventDefault(); send(); });
$("#stop").addEventListener("click", stop);
$("#thinking-level").addEventListener("change", event => {
  shown.settings.thinking = event.target.value;
  showControls();
  persist(shown);
});
$("#model").addEventListener("change", event => page.set("model", event.target.value));

const images = new Images({changed: () => { showControls(); showImageNote(); }, failed: notice});
$("#attach").addEventListener("click", () => $("#attach-file").click());
$("#attach-file").addEventListener("change", async event => {
  await images.add([...event.target.files]);
  event.target.value = "";
  prompt.focus();
});
document.addEventListener("paste", event => {
  const files = imagesOf(event.clipboardData);
  if (!files.length || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  images.add(files);
});

// A drag enters and leaves every element below; the depth tells when it has left the page.
let dragged = 0;
const showDrop = on => { $("#drop").hidden = !on; };
const hasFiles = event => event.dataTransfer?.types.includes("Files");
addEventListener("dragenter", event => { if (hasFiles(event) && ++dragged) showDrop(true); });
addEventListener("dragleave", event => { if (hasFiles(event) && --dragged <= 0) showDrop(false); });
addEventListener("dragover", event => { if (hasFiles(event)) event.preventDefault(); });
addEventListener("drop", event => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  dragged = 0;
  showDrop(false);
  images.add([...event.dataTransfer.files]);
  prompt.focus();
});

// ---------------------------------------------------------------- conversations

const stored = async head => (live.get(head.id)?.conversation ?? (head.id === shown.id ? shown : await store.load(head.id)));

function newChat() {
  closeSidebar();
  if (isEmpty(shown)) return prompt.focus();
  show(talk.create(structuredClone(shown.settings)));
}

// An answer that was under way when its tab went is no longer.
function settle(conversation) {
  for (const node of Object.values(conversation.nodes)) if (node.state === "running") node.state = "stopped";
  return conversation;
}

async function openStored(id) {
  const running = live.get(id)?.conversation;
  const conversation = running ?? await store.load(id);
  if (conversation) show(running ? running : settle(conversation));
  return Boolean(conversation);
}

const fileName = title => (title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation");

const sidebar = new Sidebar({
  async open(head) {
    closeSidebar();
    if (head.id !== shown.id && !await openStored(head.id)) refreshList();
  },
  async rename(head) {
    const title = await ask({title: "Rename this conversation", ok: "Rename", value: head.title});
    if (!title?.trim()) return;
    const conversation = await stored(head);
    Object.assign(conversation, {title: title.trim().slice(0, 200), named: true});
    await persist(conversation);
    if (conversation === shown) render();
  },
  async exportOne(head) {
    download(fileName(head.title) + ".json", talk.exported([await stored(head)]), "application/json");
  },
  async exportText(head) {
    download(fileName(head.title) + ".md", talk.asMarkdown(await stored(head)), "text/markdown");
  },
  async remove(head) {
    if (!await ask({title: "Delete this conversation?", text: `“${head.title}” cannot be brought back.`, ok: "Delete", danger: true})) return;
    deleted.add(head.id);
    live.get(head.id)?.controller.abort();
    clearTimeout(saving.get(head.id));
    await store.remove(head.id);
    unsaved.delete(head.id);
    if (!unsaved.size) notice(null);
    if (head.id === shown.id) show(talk.create());
    else await refreshList();
    $("#new-chat").focus();
  },
});

$("#new-chat").addEventListener("click", newChat);
$("#export-all").addEventListener("click", async () => {
  const all = [];
  for (const head of await store.heads()) all.push(await stored(head));
  if (!isEmpty(shown) && !all.includes(shown)) all.push(shown);
  download(`flare ${new Date().toISOString().slice(0, 10)}.json`, talk.exported(all), "application/json");
});
$("#import").addEventListener("click", () => $("#import-file").click());
$("#import-file").addEventListener("change", async event => {
  const file = event.target.files[0];
  event.target.value = "";
  if (!file) return;
  try {
    const made = talk.imported(await file.text());
    for (const conversation of made) await store.save(conversation);
    announce(`${made.length} conversations imported`);
    if (made.length) show(made[0]);
    notice(null);
  } catch (error) {
    notice(`“${file.name}” was not imported: ${error.message}`);
  }
  await refreshList();
});

store.onOtherTab(async ({id}) => {
  refreshList();
  if (id !== shown.id || live.has(id)) return;
  const conversation = await store.load(id);
  if (conversation && !Object.values(conversation.nodes).some(node => node.state === "running")) {
    shown = conversation;
    render();
  }
});

// ---------------------------------------------------------------- settings, sidebar, keys

const settings = new Settings({
  get: () => shown.settings,
  changed: () => persistSoon(shown),
  page,
  async opened() {
    try {
      const {count, bytes} = await store.usage();
      $("#usage").textContent = `${count} conversation${count === 1 ? "" : "s"}, ${store.mib(bytes)} of ${store.mib(store.LIMITS.bytes)}`;
    } catch {
      $("#usage").textContent = "nothing can be stored";
    }
  },
});
$("#open-settings").addEventListener("click", () => settings.open());
$("#settings").addEventListener("close", () => { render(); $("#open-settings").focus(); });
$("#delete-all").addEventListener("click", async () => {
  if (!await ask({title: "Delete every conversation?", text: "None can be brought back.", ok: "Delete all", danger: true})) return;
  for (const head of await store.heads()) deleted.add(head.id);
  for (const {controller} of live.values()) controller.abort();
  await store.removeAll();
  $("#settings").close();
  show(talk.create());
});

const narrow = matchMedia("(max-width: 60rem)");
function setSidebar(open) {
  document.body.classList.toggle("sidebar-open", open);
  $("#shade").hidden = !open;
  $("#sidebar").inert = narrow.matches && !open;
  $("#main").inert = narrow.matches && open;
  $("#open-sidebar").setAttribute("aria-expanded", String(open));
}
const closeSidebar = () => { if (document.body.classList.contains("sidebar-open")) { setSidebar(false); $("#open-sidebar").focus(); } };
$("#open-sidebar").addEventListener("click", () => { setSidebar(true); $("#close-sidebar").focus(); });
$("#close-sidebar").addEventListener("click", closeSidebar);
$("#shade").addEventListener("click", closeSidebar);
narrow.addEventListener("change", () => setSidebar(false));
$("#notice button").addEventListener("click", () => notice(null));

addEventListener("keydown", event => {
  if (document.querySelector("dialog[open]") || event.isComposing) return;
  if (event.key === "Escape") {
    if (document.body.classList.contains("sidebar-open")) closeSidebar();
    else stop();
  } else if (event.altKey && event.code === "KeyN" && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    newChat();
  } else if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    prompt.focus();
  }
});
addEventListener("hashchange", () => {
  const id = location.hash.slice(1);
  if (id && id !== shown.id) openStored(id);
});

// ---------------------------------------------------------------- start

$("#starters").append(...STARTERS.map(text => h("li", {}, h("button", {type: "button", class: "starter",
  onclick: () => { prompt.value = text; send(); }}, text))));

async function start() {
  setSidebar(false);
  showHint();
  prompt.value = sessionStorage.getItem("flare-draft") ?? "";
  growPrompt();
  connect();
  let found = false;
  try {
    found = location.hash.length > 1 && await openStored(location.hash.slice(1));
  } catch {
    // Told by refreshList.
  }
  if (!found) show(shown);
}
start();
