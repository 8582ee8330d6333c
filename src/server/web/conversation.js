// A conversation as a tree: every edit and every new answer is a branch, and one path through it is shown.
//
// Plain data, so that it is stored and exported as it is: {id, title, named, created, updated, settings, root, nodes};
// a node is {id, parent, children, shown, role, …}. Node ids are unique within the conversation.

export const VERSION = 1;
export const ROLES = ["user", "assistant"];

const freshId = () => crypto.getRandomValues(new Uint32Array(3)).reduce((id, n) => id + n.toString(36).padStart(7, "0"), "");

export function create(settings = {}) {
  const now = Date.now();
  return {
    id: freshId(), title: "New chat", named: false, created: now, updated: now,
    settings: {system: "", tools: "", sampling: {}, thinking: "", ...settings},
    nodes: {root: {id: "root", parent: null, children: [], shown: null, role: "root"}},
  };
}

// Adds a child of `parent` and shows it.
export function add(conversation, parent, fields) {
  const node = {id: freshId(), parent, children: [], shown: null, ...fields};
  conversation.nodes[node.id] = node;
  const above = conversation.nodes[parent];
  above.children.push(node.id);
  above.shown = node.id;
  return node;
}

// The nodes that are shown, from the first message on.
export function path(conversation) {
  const nodes = [];
  let node = conversation.nodes.root;
  while (node.shown) nodes.push(node = conversation.nodes[node.shown]);
  return nodes;
}

export const siblings = (conversation, node) => conversation.nodes[node.parent].children;

// Shows the sibling `step` places on, with what was last shown below it.
export function turn(conversation, node, step) {
  const all = siblings(conversation, node);
  const next = all[all.indexOf(node.id) + step];
  if (next) conversation.nodes[node.parent].shown = next;
  return Boolean(next);
}

// A new conversation with the path up to `node`.
export function branch(conversation, node) {
  const copy = create(structuredClone(conversation.settings));
  copy.title = `${conversation.title} (branch)`.slice(0, 200);
  copy.named = true;
  let parent = "root";
  for (const each of path(conversation)) {
    const {id: _i, parent: _p, children: _c, shown: _s, ...fields} = structuredClone(each);
    parent = add(copy, parent, fields).id;
    if (each.id === node.id) break;
  }
  return copy;
}

// The first words of the first question, until somebody gives it a name.
export function retitle(conversation) {
  if (conversation.named) return;
  const first = path(conversation)[0];
  const words = (first?.text ?? "").replace(/\s+/g, " ").trim();
  conversation.title = words ? [...words].slice(0, 60).join("") + ([...words].length > 60 ? "…" : "")
    : first?.images?.length ? "An image" : "New chat";
}

const imageParts = node => (node.images ?? []).map(url => ({type: "image_url", image_url: {url}}));

// What the server reads: the shown path up to `last`, inclusive.
export function messages(conversation, last) {
  const list = [];
  const {system} = conversation.settings;
  if (system.trim()) list.push({role: "system", content: system});
  for (const node of path(conversation)) {
    if (node.role === "user") {
      const images = imageParts(node);
      list.push({role: "user", content: images.length ? [...images, {type: "text", text: node.text}] : node.text});
    } else {
      const message = {role: "assistant", content: node.text};
      if (node.reasoning) message.reasoning_content = node.reasoning;
      if (node.calls?.length) message.tool_calls = node.calls.map(callMessage);
      if (node.text || node.reasoning || node.calls?.length) list.push(message);
      // Nobody ran them; a model that sees a call without result cannot go on.
      for (const call of node.id === last ? [] : node.calls ?? [])
        list.push({role: "tool", tool_call_id: call.id, content: call.result ?? "not run: this page only shows calls"});
    }
    if (node.id === last) break;
  }
  return list;
}

// Arguments that a limit cut short are no JSON, and no history either.
function callMessage(call) {
  let text = call.arguments || "{}";
  try {
    if (typeof JSON.parse(text) !== "object") text = "{}";
  } catch {
    text = "{}";
  }
  return {id: call.id, type: "function", function: {name: call.name, arguments: text}};
}

// ---------------------------------------------------------------- export and import

export const exported = conversations => JSON.stringify({format: "flare-conversations", version: VERSION, conversations}, null, 1);

export function asMarkdown(conversation) {
  const parts = [`# ${conversation.title}`];
  if (conversation.settings.system.trim()) parts.push("## System", conversation.settings.system);
  for (const node of path(conversation)) {
    parts.push(node.role === "user" ? "## You" : "## Model");
    if (node.images?.length) parts.push(`*${node.images.length} image${node.images.length > 1 ? "s" : ""}*`);
    if (node.reasoning) parts.push(node.reasoning.split("\n").map(line => "> " + line).join("\n"));
    if (node.text) parts.push(node.text);
    for (const call of node.calls ?? []) parts.push("```json\n" + JSON.stringify({call: call.name, arguments: call.arguments}, null, 1) + "\n```");
  }
  return parts.join("\n\n") + "\n";
}

const text = (value, most = 8 << 20) => {
  if (typeof value !== "string" || value.length > most) throw new Error("a text is missing or too long");
  return value;
};
const optional = (value, read) => (value === undefined || value === null ? undefined : read(value));
const list = (value, most) => {
  if (!Array.isArray(value) || value.length > most) throw new Error("a list is missing or too long");
  return value;
};
const finite = value => {
  if (typeof value !== "number" || !Number.isFinite(value)) throw new Error("a number is missing");
  return value;
};

// Pictures come from the file itself, never from elsewhere.
export const isImage = url => /^data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/=]+$/.test(url);

// Conversations of an exported file, made anew from the fields that are known: whatever else the file holds
// stays outside. Errors say what is wrong.
export function imported(json) {
  const file = JSON.parse(json);
  if (file?.format !== "flare-conversations") throw new Error("it is no export of this page");
  if (file.version !== VERSION) throw new Error(`it has version ${file.version}, and ${VERSION} is expected`);
  return list(file.conversations, 10000).map(readConversation);
}

function readSettings(given = {}) {
  const sampling = {};
  for (const [name, value] of Object.entries(given.sampling ?? {}))
    if (/^[a-z_]{1,32}$/.test(name)) sampling[name] = finite(value);
  return {
    system: optional(given.system, text) ?? "", tools: optional(given.tools, text) ?? "",
    thinking: optional(given.thinking, value => text(value, 16)) ?? "", sampling,
  };
}

function readConversation(given) {
  const conversation = create(readSettings(given.settings));
  conversation.title = text(given.title, 1000).slice(0, 200);
  conversation.named = given.named === true;
  conversation.created = finite(given.created);
  conversation.updated = finite(given.updated);
  const source = given.nodes;
  if (typeof source !== "object" || !source?.root) throw new Error("a conversation has no messages");
  // From the root down: what is not reached, or reached twice, is not taken.
  const seen = new Set(["root"]);
  const open = [["root", "root"]];
  while (open.length) {
    const [from, to] = open.shift();
    const node = source[from];
    let shown = null;
    for (const child of list(node.children, 10000)) {
      if (!Object.hasOwn(source, child) || seen.has(child)) throw new Error("messages hang together wrongly");
      seen.add(child);
      const made = add(conversation, to, readNode(source[child]));
      if (child === node.shown) shown = made.id;
      open.push([child, made.id]);
    }
    conversation.nodes[to].shown = shown ?? conversation.nodes[to].children.at(-1) ?? null;
  }
  return conversation;
}

function readNode(given) {
  if (!ROLES.includes(given.role)) throw new Error("a message has an unknown role");
  const node = {role: given.role, text: text(given.text), time: optional(given.time, finite) ?? 0};
  const images = optional(given.images, value => list(value, 64).map(url => text(url, 48 << 20)));
  if (images?.length) {
    if (!images.every(isImage)) throw new Error("an image is not part of the file");
    node.images = images;
  }
  if (given.role === "user") return node;
  node.state = given.state === "done" ? "done" : "stopped";
  for (const name of ["reasoning", "model", "finish"]) {
    const value = optional(given[name], text);
    if (value) node[name] = value;
  }
  const calls = optional(given.calls, value => list(value, 1000).map(readCall));
  if (calls?.length) node.calls = calls;
  if (given.stats) {
    node.stats = {};
    for (const [name, value] of Object.entries(given.stats))
      if (/^[A-Za-z]{1,20}$/.test(name) && typeof value === "number") node.stats[name] = finite(value);
  }
  return node;
}

function readCall(given) {
  const call = {id: text(given.id, 200), name: text(given.name, 200), arguments: text(given.arguments)};
  const result = optional(given.result, text);
  if (result !== undefined) call.result = result;
  return call;
}
