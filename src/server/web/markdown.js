// Markdown as DOM nodes: an allow-list of elements, made one by one, with text nodes as their only text.
//
// What is not on the list, HTML included, stays the text it is. Time is linear in the text: delimiters that
// may open something are kept on one stack of bounded depth, and nothing is looked for twice.
import {h, icon, copyText} from "./dom.js";

const MAX_DEPTH = 8;     // blocks within blocks
const MAX_FRAMES = 24;   // inline elements within inline elements
const MAX_URL = 2000;
const MAX_COLUMNS = 32;

// ---------------------------------------------------------------- blocks

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|[ \t]*)$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;

const isBlank = line => /^\s*$/.test(line);
const indentOf = line => line.length - line.replace(/^[ \t]+/, "").length;

// Lines to blocks: {kind, first, last, …}, last exclusive.
function readBlocks(lines, depth) {
  const blocks = [];
  let i = 0;
  while (i < lines.length) {
    if (isBlank(lines[i])) { ++i; continue; }
    const block = readBlock(lines, i, depth);
    block.first = i;
    blocks.push(block);
    i = block.last;
  }
  return blocks;
}

function readBlock(lines, i, depth) {
  const line = lines[i];
  let m;
  if ((m = FENCE.exec(line)) && !(m[1][0] === "`" && m[2].includes("`"))) return readFence(lines, i, m);
  if ((m = HEADING.exec(line))) return {kind: "heading", level: m[1].length, text: (m[2] ?? "").trim().replace(/(?:^|[ \t])#+$/, ""), last: i + 1};
  if (RULE.test(line)) return {kind: "rule", last: i + 1};
  if (depth < MAX_DEPTH && QUOTE.test(line)) return readQuote(lines, i);
  if (depth < MAX_DEPTH && (m = ITEM.exec(line))) return readList(lines, i, m);
  if (line.includes("|") && i + 1 < lines.length && isTable(line, lines[i + 1])) return readTable(lines, i);
  return readParagraph(lines, i, depth);
}

function readFence(lines, i, m) {
  const [, marks, info] = m;
  const indent = indentOf(lines[i]);
  const strip = new RegExp(`^ {0,${indent}}`);
  const close = new RegExp(`^ {0,3}\\${marks[0]}{${marks.length},}[ \\t]*$`);
  const code = [];
  let k = i + 1;
  for (; k < lines.length && !close.test(lines[k]); ++k) code.push(indent ? lines[k].replace(strip, "") : lines[k]);
  return {kind: "code", language: info.trim().split(/\s/)[0], text: code.join("\n"), last: Math.min(k + 1, lines.length)};
}

function startsBlock(line, depth) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) ||
         (depth < MAX_DEPTH && (QUOTE.test(line) || /^ {0,3}(?:[-*+]|1[.)])[ \t]+\S/.test(line)));
}

function readQuote(lines, i) {
  const inner = [];
  let k = i;
  for (; k < lines.length && !isBlank(lines[k]); ++k) {
    if (QUOTE.test(lines[k])) inner.push(lines[k].replace(QUOTE, ""));
    else if (k > i && !startsBlock(lines[k], 0) && !isBlank(inner.at(-1))) inner.push(lines[k]);  // lazy
    else break;
  }
  return {kind: "quote", lines: inner, last: k};
}

// Items of one kind of marker. A line belongs to an item if it is indented to its text, or follows
// without a blank line and begins no block of its own.
function readList(lines, i, first) {
  const kind = marker => (/\d/.test(marker) ? marker.at(-1) : marker);
  const own = kind(first[2]);
  const items = [];
  let loose = false;
  let blank = false;  // the line before was
  let k = i;
  let width = 0;
  for (; k < lines.length; ++k) {
    const line = lines[k];
    if (isBlank(line)) {
      items.at(-1).push("");
      blank = true;
      continue;
    }
    const m = ITEM.exec(line);
    if (items.length && indentOf(line) >= width) {
      items.at(-1).push(line.slice(width));
    } else if (m && kind(m[2]) === own && !RULE.test(line)) {
      const gap = m[3] && m[3].length <= 4 ? m[3].length : 1;
      width = m[1].length + m[2].length + gap;
      if (blank && items.length) loose = true;
      items.push([m[4] === undefined ? "" : (m[3].length > 4 ? m[3].slice(1) : "") + m[4]]);
    } else if (items.length && m && m[1].length >= 2 && kind(m[2]) !== own) {
      items.at(-1).push(line.slice(m[1].length));  // indented, but not far enough
    } else if (!blank && !m && !startsBlock(line, 0)) {
      items.at(-1).push(line.trimStart());
    } else {
      break;
    }
    blank = false;
  }
  for (const item of items) while (item.length && isBlank(item.at(-1))) item.pop();
  if (items.some(item => item.some(isBlank) && item.length > 2)) loose = true;
  const ordered = /\d/.test(first[2]);
  return {kind: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items, loose, last: k};
}

function cellsOf(line) {
  const cells = [];
  let cell = "";
  const text = line.trim().replace(/^\|/, "");
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === "\\" && text[i + 1] === "|") { cell += "|"; ++i; }
    else if (text[i] === "|") { cells.push(cell.trim()); cell = ""; }
    else cell += text[i];
  }
  if (cell.trim()) cells.push(cell.trim());
  return cells;
}

function isTable(head, rule) {
  if (!rule.includes("-") || !(rule.includes("|") || head.trim().startsWith("|")) || !TABLE_RULE.test(rule)) return false;
  const columns = cellsOf(rule).length;
  return columns === cellsOf(head).length && columns <= MAX_COLUMNS;
}

function readTable(lines, i) {
  const align = cellsOf(lines[i + 1]).map(c => (c.endsWith(":") ? (c.startsWith(":") ? "center" : "right") : "left"));
  const rows = [];
  let k = i + 2;
  for (; k < lines.length && !isBlank(lines[k]) && !startsBlock(lines[k], 0); ++k) rows.push(cellsOf(lines[k]));
  return {kind: "table", align, head: cellsOf(lines[i]), rows, last: k};
}

function readParagraph(lines, i, depth) {
  let k = i + 1;
  for (; k < lines.length && !isBlank(lines[k]); ++k) {
    const m = UNDERLINE.exec(lines[k]);
    if (m) return {kind: "heading", level: m[1][0] === "=" ? 1 : 2, text: paragraphText(lines, i, k), last: k + 1};
    if (startsBlock(lines[k], depth)) break;
    if (lines[k].includes("|") && k + 1 < lines.length && isTable(lines[k], lines[k + 1])) break;
  }
  return {kind: "paragraph", text: paragraphText(lines, i, k), last: k};
}

const paragraphText = (lines, first, last) => lines.slice(first, last).map(line => line.trimStart()).join("\n").trimEnd();

// ---------------------------------------------------------------- inline

const ESCAPABLE = /[!-/:-@[-`{-~]/;
const ENTITIES = {amp: "&", lt: "<", gt: ">", quot: "\"", apos: "'", nbsp: "\u00a0", copy: "©", mdash: "—", ndash: "–", hellip: "…", times: "×", rarr: "→", larr: "←"};
const SPECIAL = /[\\`*_~[\]!<&\nhw]/g;
const WORD = /[\p{L}\p{N}]/u;

// The address if it may be followed, else null. Only these three schemes leave the page.
export function safeUrl(text) {
  if (text.length > MAX_URL) return null;
  let url;
  try {
    url = new URL(text);
  } catch {
    return null;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
}

const link = (url, children) => h("a", {href: url, target: "_blank", rel: "noopener noreferrer nofollow", referrerpolicy: "no-referrer"}, children);

// "(url "title")" at i: {url, end}, or null.
function readTarget(text, i) {
  const m = /^\([ \t\n]*(?:<([^<>\n]*)>|([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*))(?:[ \t\n]+(?:"[^"]{0,500}"|'[^']{0,500}'))?[ \t\n]*\)/
    .exec(text.slice(i, i + MAX_URL + 600));
  return m && {url: m[1] ?? m[2], end: i + m[0].length};
}

// Where the run of backticks of each length occurs next, asked with growing positions.
function codeRuns(text) {
  const byLength = new Map();
  for (const m of text.matchAll(/`+/g)) {
    if (!byLength.has(m[0].length)) byLength.set(m[0].length, {at: [], next: 0});
    byLength.get(m[0].length).at.push(m.index);
  }
  return (length, from) => {
    const list = byLength.get(length);
    while (list.next < list.at.length && list.at[list.next] < from) ++list.next;
    return list.next < list.at.length ? list.at[list.next] : -1;
  };
}

class Inline {
  constructor(text) {
    this.text = text;
    this.frames = [{key: "", literal: "", out: []}];
    this.open = new Map();
    this.nextRun = codeRuns(text);
  }
  get top() { return this.frames.at(-1); }
  put(node) { this.top.out.push(node); }
  say(text) {
    if (!text) return;
    const {out} = this.top;
    if (typeof out.at(-1) === "string") out[out.length - 1] += text;
    else out.push(text);
  }
  push(key, literal) {
    if (this.frames.length > MAX_FRAMES) return this.say(literal);
    this.frames.push({key, literal, out: []});
    this.open.set(key, (this.open.get(key) ?? 0) + 1);
  }
  // The innermost frame turns back into what was written.
  dissolve() {
    const {key, literal, out, linked} = this.frames.pop();
    this.open.set(key, this.open.get(key) - 1);
    this.say(literal);
    for (const part of out) typeof part === "string" ? this.say(part) : this.put(part);
    if (linked) this.top.linked = true;
  }
  // The contents of the innermost frame of `key`; null if there is none.
  pop(key) {
    if (!this.open.get(key)) return null;
    while (this.top.key !== key) this.dissolve();
    this.open.set(key, this.open.get(key) - 1);
    return this.frames.pop();
  }

  read() {
    const {text} = this;
    let i = 0;
    while (i < text.length) {
      SPECIAL.lastIndex = i;
      const m = SPECIAL.exec(text);
      if (!m) break;
      this.say(text.slice(i, m.index));
      i = this.step(m[0], m.index);
    }
    this.say(text.slice(i));
    while (this.frames.length > 1) this.dissolve();
    return this.top.out;
  }

  // Reads what begins at i with c; returns where to go on.
  step(c, i) {
    const {text} = this;
    switch (c) {
      case "\\":
        if (text[i + 1] === "\n") { this.put(h("br")); return i + 2; }
        if (i + 1 < text.length && ESCAPABLE.test(text[i + 1])) { this.say(text[i + 1]); return i + 2; }
        break;
      case "\n":
        this.put(h("br"));
        return i + 1;
      case "`": return this.code(i);
      case "*": case "_": case "~": return this.emphasis(c, i);
      case "!":
        if (text[i + 1] === "[") { this.push("![", "!["); return i + 2; }
        break;
      case "[":
        this.push("[", "[");
        return i + 1;
      case "]": return this.closeBracket(i);
      case "<": return this.angle(i);
      case "&": return this.entity(i);
      default: return this.bareUrl(i);
    }
    this.say(c);
    return i + 1;
  }

  code(i) {
    let n = 1;
    while (this.text[i + n] === "`") ++n;
    const end = this.nextRun(n, i + n);
    if (end < 0) {
      this.say("`".repeat(n));
      return i + n;
    }
    let code = this.text.slice(i + n, end).replace(/\n/g, " ");
    if (/^ .* $/.test(code) && code.trim()) code = code.slice(1, -1);
    this.put(h("code", {}, code));
    return end + n;
  }

  emphasis(c, i) {
    const {text} = this;
    let n = 1;
    while (text[i + n] === c) ++n;
    const before = i ? text[i - 1] : " ";
    const after = text[i + n] ?? " ";
    // Words_with_underscores stay; and so does a star between blanks.
    const inWord = c === "_" && WORD.test(before) && WORD.test(after);
    const canOpen = !/\s/.test(after) && !inWord;
    const canClose = !/\s/.test(before) && !inWord;
    let left = n;
    const take = (size, name) => {
      const key = c + size;
      while (left >= size && canClose && this.open.get(key)) {
        const {out, linked} = this.pop(key);
        if (out.length) this.put(h(name, {}, out));
        else this.say(c.repeat(2 * size));
        if (linked) this.top.linked = true;
        left -= size;
      }
    };
    if (c === "~") {
      take(2, "del");
      if (left === 2 && canOpen) { this.push("~2", "~~"); left = 0; }
    } else {
      if (left % 2 || !this.open.get(c + 2)) take(1, "em");
      take(2, "strong");
      take(1, "em");
      if (canOpen && left <= 3) {
        if (left >= 2) this.push(c + 2, c + c);
        if (left % 2) this.push(c + 1, c);
        left = 0;
      }
    }
    this.say(c.repeat(left));
    return i + n;
  }

  closeBracket(i) {
    const key = this.open.get("[") || this.open.get("![") ? this.frames.findLast(f => f.key.endsWith("[")).key : "";
    if (!key) {
      this.say("]");
      return i + 1;
    }
    const target = this.text[i + 1] === "(" ? readTarget(this.text, i + 1) : null;
    const url = target && safeUrl(target.url);
    while (this.top.key !== key) this.dissolve();
    if (!url || this.top.linked) {
      this.dissolve();
      this.say("]");
      return i + 1;
    }
    const {out} = this.pop(key);
    // Pictures are not fetched from elsewhere: their address is shown as what it is.
    this.put(link(url, out.length ? out : [url]));
    this.top.linked = true;
    return target.end;
  }

  angle(i) {
    const rest = this.text.slice(i, i + MAX_URL);
    const m = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(rest);
    const url = m && safeUrl(m[1]);
    if (url) {
      this.put(link(url, [m[1]]));
      return i + m[0].length;
    }
    const line = /^<br ?\/?>/i.exec(rest);
    if (line) {
      this.put(h("br"));
      return i + line[0].length;
    }
    this.say("<");
    return i + 1;
  }

  entity(i) {
    const m = /^&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,6}));/i.exec(this.text.slice(i, i + 12));
    let shown = null;
    if (m && m[3]) shown = Object.hasOwn(ENTITIES, m[3]) ? ENTITIES[m[3]] : null;
    else if (m) {
      const code = m[1] ? parseInt(m[1], 10) : parseInt(m[2], 16);
      const good = code > 31 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
      shown = good ? String.fromCodePoint(code) : "\ufffd";
    }
    this.say(shown ?? "&");
    return i + (shown === null ? 1 : m[0].length);
  }

  // http://…, https://…, www.… in plain text, without the stop or bracket that ends a sentence.
  bareUrl(i) {
    const {text} = this;
    const inWord = i > 0 && WORD.test(text[i - 1]);
    const near = text.slice(i, i + 8);
    const m = inWord || !/^(?:https?:\/\/|www\.)/.test(near) ? null
      : /^(?:https?:\/\/|www\.)[^\s<>"`]{2,}/.exec(text.slice(i, i + MAX_URL));
    if (m) {
      let shown = m[0].replace(/[.,:;!?*_~'"]+$/, "");
      while (shown.endsWith(")") && shown.split(")").length > shown.split("(").length) shown = shown.slice(0, -1);
      if (shown.endsWith("]")) shown = shown.replace(/\]+$/, "");
      const url = safeUrl(shown.startsWith("www.") ? "https://" + shown : shown);
      const inLink = this.open.get("[") || this.open.get("![");
      if (url && !inLink) {
        this.put(link(url, [shown]));
        this.top.linked = true;
        return i + shown.length;
      }
    }
    this.say(text[i]);
    return i + 1;
  }
}

export const inline = text => new Inline(text).read();

// ---------------------------------------------------------------- nodes

function codeBlock({language, text}) {
  const button = h("button", {type: "button", class: "icon copy", "aria-label": "Copy the code", title: "Copy the code"}, icon("copy"));
  const code = h("code", {}, text);
  button.addEventListener("click", () => copyText(code.textContent, button));
  return h("figure", {class: "code"},
    h("figcaption", {}, h("span", {}, language.slice(0, 40) || "text"), button),
    h("pre", {tabindex: "0"}, code));
}

function tableNode({align, head, rows}) {
  const row = (name, cells) => h("tr", {}, align.map((side, i) => h(name, {class: side, scope: name === "th" ? "col" : null}, inline(cells[i] ?? ""))));
  return h("div", {class: "table", tabindex: "0"},
    h("table", {}, h("thead", {}, row("th", head)), h("tbody", {}, rows.map(cells => row("td", cells)))));
}

function listNode(block, depth) {
  const items = block.items.map(lines => {
    const task = /^\[([ xX])\][ \t]+/.exec(lines[0] ?? "");
    if (task) lines = [lines[0].slice(task[0].length), ...lines.slice(1)];
    const children = nodesOf(lines, depth + 1, !block.loose);
    return task ? h("li", {class: "task"}, h("span", {class: "box", role: "img", "aria-label": task[1] === " " ? "open" : "done"}, task[1] === " " ? "☐" : "☑"), children)
      : h("li", {}, children);
  });
  return block.ordered ? h("ol", {start: block.start === 1 ? null : block.start}, items) : h("ul", {}, items);
}

// `tight`: paragraphs of a list without blank lines are no elements of their own.
function nodeOf(block, depth, tight) {
  switch (block.kind) {
    case "heading": return h("h" + Math.min(6, block.level + 2), {class: "h" + block.level}, inline(block.text));
    case "rule": return h("hr");
    case "code": return codeBlock(block);
    case "quote": return h("blockquote", {}, nodesOf(block.lines, depth + 1));
    case "list": return listNode(block, depth);
    case "table": return tableNode(block);
    default: return tight ? inline(block.text) : h("p", {}, inline(block.text));
  }
}

const nodesOf = (lines, depth, tight = false) => readBlocks(lines, depth).flatMap(block => nodeOf(block, depth, tight));

const plainLine = line => line.replace(/\r/g, "").replace(/\t/g, "    ");

// Text that grows. A block stays as it is once another one surely follows it: one that begins two
// whole lines before the end, since an unfinished line may still turn out to be something else.
export class GrowingMarkdown {
  constructor(element) {
    this.element = element;
    this.restart();
  }
  restart() {
    this.element.replaceChildren();
    this.text = "";
    this.done = 0;   // characters of blocks that stay
    this.tail = [];  // nodes of the others
  }
  set(text) {
    if (text === this.text) return;
    if (!text.startsWith(this.text)) this.restart();
    this.text = text;
    const lines = text.slice(this.done).replace(/\r(?!\n)/g, "\n").split("\n");
    const blocks = readBlocks(lines.map(plainLine), 0);
    const final = Math.max(0, blocks.findLastIndex(block => block.first < lines.length - 2));
    for (const node of this.tail) node.remove();
    const nodes = blocks.map(block => nodeOf(block, 0, false));
    this.element.append(...nodes);
    this.tail = nodes.slice(final);
    if (final > 0)
      for (const line of lines.slice(0, blocks[final].first)) this.done += line.length + 1;
  }
}
