// The chat page in Chromium, with the bundled model behind it, or a test in the model's place (stage.mjs).
// usage: FLARE_URL=http://HOST:PORT CHROMIUM=PATH node --test page_test.mjs
import assert from "node:assert/strict";
import {randomBytes} from "node:crypto";
import {readFile} from "node:fs/promises";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {after, afterEach, before, test} from "node:test";
import {chromium} from "playwright-core";
import {Stage} from "./stage.mjs";

const PATIENCE_MS = 120_000;  // for what takes a second where the machine is not busy
const DESKTOP = {viewport: {width: 1280, height: 800}};
const PHONE = {viewport: {width: 390, height: 780}, isMobile: true, hasTouch: true, deviceScaleFactor: 2};
const WEATHER = [{type: "function", function: {name: "get_weather", description: "", parameters: {
  type: "object", properties: {city: {type: "string"}}, required: ["city"]}}}];
// One pixel.
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

let browser;
let stage;
let contexts = [];

before(async () => {
  browser = await chromium.launch({executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"]});
  stage = await Stage.open(process.env.FLARE_URL);
});
after(async () => {
  await browser?.close();
  stage?.close();
});
afterEach(async () => {
  for (const context of contexts) await context.close();
  contexts = [];
  stage.reset();
});

// A page of its own context, or of `context`. What breaks on it breaks the test.
async function open(t, options = {}, {context, path = "", ready = true} = {}) {
  if (!context) {
    context = await browser.newContext({...DESKTOP, ...options});
    contexts.push(context);
    await context.addInitScript(() => {
      window.violations = [];
      document.addEventListener("securitypolicyviolation", event => window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
    });
  }
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const broken = [];
  page.on("pageerror", error => broken.push(error.stack));
  page.on("dialog", dialog => { broken.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("popup", () => broken.push("a popup"));
  page.on("console", message => {
    const refused = /^Failed to load resource: /.test(message.text());  // an error that a test stages
    if (message.type() === "error" && !refused) broken.push(message.text());
  });
  page.on("request", request => {
    const {protocol, host} = new URL(request.url());
    if (!["data:", "blob:"].includes(protocol) && host !== new URL(stage.url).host) broken.push(`a request to ${request.url()}`);
  });
  t.after(async () => {
    const violations = page.isClosed() ? [] : await page.evaluate(() => window.violations).catch(() => []);
    assert.deepEqual([...broken, ...violations], []);
  });
  await page.goto(stage.url + path);
  if (ready) await page.waitForSelector("#state[data-state=ready]");
  return page;
}

const answered = page => page.waitForSelector("#send:not([hidden])");
async function ask(page, text) {
  await page.fill("#prompt", text);
  await page.press("#prompt", "Enter");
  await answered(page);
}
const answers = page => page.locator(".message.model .answer").allInnerTexts();
const lastAnswer = page => page.locator(".message.model .answer").last();
const titles = page => page.locator(".conversation .name").allInnerTexts();
const button = (page, name) => page.getByRole("button", {name, exact: true});
// Until a condition of the page's own holds; no fixed pause anywhere.
const until = (page, condition, argument) => page.waitForFunction(condition, argument);
const stored = page => until(page, async () => {
  const db = await new Promise((resolve, reject) => {
    const request = indexedDB.open("flare");
    request.onsuccess = () => resolve(request.result);
    request.onerror = reject;
  });
  const all = await new Promise(resolve => {
    const request = db.transaction("bodies").objectStore("bodies").getAll();
    request.onsuccess = () => resolve(request.result);
  });
  db.close();
  return all.length > 0 && all.every(c => Object.values(c.nodes).every(node => node.state !== "running"));
});

async function greedy(page) {
  await button(page, "Settings").click();
  await page.fill("#s-temperature", "0");
  await page.keyboard.press("Escape");
}

// Pictures for people, when they are asked for.
async function shot(page, name) {
  if (process.env.FLARE_SHOTS) await page.screenshot({path: join(process.env.FLARE_SHOTS, name + ".png")});
}

// ---------------------------------------------------------------- what is served

test("the page is small, confined and self-contained", async () => {
  const seen = new Map();
  const open = ["", "web/page.html"];
  while (open.length) {
    const path = open.pop();
    if (seen.has(path)) continue;
    const response = await fetch(stage.url + path);
    assert.equal(response.status, 200, path);
    const text = await response.text();
    seen.set(path, text.length);
    const policy = response.headers.get("content-security-policy");
    assert.match(policy, /^default-src 'none';/);
    assert.doesNotMatch(policy, /unsafe|https?:|\*/);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff");
    assert.equal(response.headers.get("referrer-policy"), "no-referrer");
    const tag = response.headers.get("etag");
    assert.match(tag, /^"[0-9a-f]{32}"$/);
    const again = await fetch(stage.url + path, {headers: {"If-None-Match": tag}});
    assert.equal(again.status, 304);
    assert.equal(await again.text(), "");
    const other = await fetch(stage.url + path, {headers: {"If-None-Match": "\"0\""}});
    assert.equal(other.status, 200);
    await other.text();
    const head = await fetch(stage.url + path, {method: "HEAD"});
    assert.equal(head.status, 200);
    assert.equal(head.headers.get("content-length"), String(Buffer.byteLength(text)));
    assert.equal(await head.text(), "");
    for (const m of text.matchAll(/(?:src|href)="(web\/[\w.]+)"/g)) open.push(m[1]);
    for (const m of text.matchAll(/from "\.\/([\w.]+)"/g)) open.push("web/" + m[1]);
    if (path === "" || path.endsWith("html")) {
      assert.doesNotMatch(text, /<script(?![^>]* src=)|\son\w+=|\sstyle=|<style|(?:src|href)="(?!web\/|#)/);
    }
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, path);
  }
  assert.ok(seen.size > 10, [...seen.keys()].join());
  seen.delete("web/page.html");
  const total = [...seen.values()].reduce((a, b) => a + b);
  assert.ok(total <= 200 * 1024, `${total} bytes`);
});

test("other paths and methods are refused", async () => {
  for (const path of ["web/none.js", "web/", "web/../page.js", "web/page.css/x", "web/%2e%2e/page.css"]) {
    const response = await fetch(stage.url + path);
    assert.equal(response.status, 404, path);
    assert.equal((await response.json()).error.code, "not_found");
  }
  const post = await fetch(stage.url, {method: "POST"});
  assert.equal(post.status, 405);
  assert.equal(post.headers.get("allow"), "GET, HEAD");
  await post.text();
});

test("props say what the model offers", async () => {
  const props = await (await fetch(stage.url + "props")).json();
  assert.deepEqual(props.models, ["nano"]);
  assert.equal(props.model, "nano");
  assert.equal(props.total_slots, 8);
  assert.deepEqual(props.slots, {total: 8, running: 0, waiting: 0});
  const {n_ctx, params} = props.default_generation_settings;
  assert.equal(n_ctx, 4096);
  // models/nano/generation_config.json
  assert.deepEqual([params.temperature, params.top_p, params.top_k], [0.7, 0.9, 20]);
  assert.match(props.chat_template, /<\|im_start\|>/);
  assert.equal(props.tool_format, "qwen_xml");
  assert.deepEqual(props.reasoning, {format: "think", switchable: true, default: false, levels: []});
  assert.deepEqual(props.modalities, {vision: false, audio: false});
  assert.deepEqual(props.special_tokens.stop_ids, [2, 0]);
  assert.match(props.build_info, /^flare \d/);
});

// ---------------------------------------------------------------- talking

test("a conversation: questions, versions, edits, branches", async t => {
  const page = await open(t);
  await greedy(page);
  await ask(page, "What is the capital of Italy?");
  assert.deepEqual(await answers(page), ["The capital of Italy is Rome."]);
  assert.match(await page.locator(".stats").last().innerText(), /^\d+ tokens · [\d,.]+ tok\/s · first after [\d.]+ m?s · \d+ prompt tokens, \d+ cached$/);
  assert.equal(await page.locator("#title").innerText(), "What is the capital of Italy?");
  await ask(page, "Who are you?");
  assert.equal(stage.chats.at(-1).messages.length, 3);
  assert.equal(stage.chats.at(-1).temperature, 0);
  assert.equal((await answers(page)).length, 2);

  await page.locator(".message.model").last().getByRole("button", {name: "Answer again"}).click();
  await answered(page);
  assert.equal(await page.locator(".message.model .place").innerText(), "2/2");
  await button(page, "Earlier version").click();
  assert.equal(await page.locator(".message.model .place").innerText(), "1/2");

  await page.locator(".message.user").first().hover();
  await page.locator(".message.user").first().getByRole("button", {name: "Edit"}).click();
  await page.getByRole("textbox", {name: "Edit your message"}).fill("What is the capital of France?");
  await page.keyboard.press("Enter");
  await answered(page);
  assert.deepEqual(await answers(page), ["The capital of France is Paris."]);
  assert.equal(stage.chats.at(-1).messages.length, 1);
  await button(page, "Earlier version").click();
  assert.equal((await answers(page)).length, 2);
  assert.equal((await answers(page))[0], "The capital of Italy is Rome.");

  await page.locator(".message.model").first().getByRole("button", {name: "New chat from here"}).click();
  assert.deepEqual(await answers(page), ["The capital of Italy is Rome."]);
  assert.equal(await page.locator("#title").innerText(), "What is the capital of Italy? (branch)");
  await until(page, () => document.querySelectorAll(".conversation").length === 2);
});

test("reasoning is asked for, shown and folded away", async t => {
  const page = await open(t);
  await greedy(page);
  await page.selectOption("#thinking-level", "on");
  await ask(page, "What is the capital of Spain?");
  assert.equal(stage.chats[0].enable_thinking, true);
  const box = page.locator("details.reasoning");
  assert.equal(await box.evaluate(e => e.open), false);
  await box.locator("summary").click();
  // models/nano/greedy.json
  assert.equal(await box.locator(".md").innerText(), "The question is about Spain. Its capital is Madrid.");
  assert.match(await box.locator("summary").innerText(), /^Reasoned, \d+ tokens/);
  assert.equal(await lastAnswer(page).innerText(), "The capital of Spain is Madrid.");
});

test("what is sampled, said and limited goes into the request", async t => {
  const page = await open(t);
  await button(page, "Settings").click();
  assert.equal(await page.getAttribute("#s-temperature", "placeholder"), "0.7");
  await page.fill("#system", "Answer in German.");
  await page.fill("#s-top_p", "0.5");
  await page.fill("#s-seed", "7");
  await page.fill("#s-max_tokens", "3");
  await page.fill("#s-top_k", "1.5");  // no whole number: not sent
  assert.equal(await page.getAttribute("#s-top_k", "aria-invalid"), "true");
  await page.keyboard.press("Escape");
  await ask(page, "Tell me a short story.");
  const {messages, model, stream, ...rest} = stage.chats[0];
  assert.deepEqual(messages, [{role: "system", content: "Answer in German."}, {role: "user", content: "Tell me a short story."}]);
  assert.deepEqual(rest, {top_p: 0.5, seed: 7, max_tokens: 3, stream_options: {include_usage: true}, timings: true});
  assert.match(await page.locator(".stats").innerText(), /^Stopped at the token limit · 3 tokens/);
  assert.match(await page.locator("li.system").innerText(), /Answer in German\./);
});

test("an answer is stopped in mid-stream and then continued", async t => {
  const page = await open(t);
  let stopped;
  stage.plays.push(async answer => {
    answer.delta({role: "assistant", content: ""});
    answer.text("One **two**");
    stopped = answer.closed;
  });
  await page.fill("#prompt", "Count");
  await page.press("#prompt", "Enter");
  await until(page, () => document.querySelector(".answer")?.innerText === "One two");
  assert.equal(await page.locator("#send").isVisible(), false);
  await button(page, "Stop the answer").click();
  await stopped;  // the server sees that nobody listens any more
  await answered(page);
  assert.equal(await lastAnswer(page).innerText(), "One two");
  assert.match(await page.locator(".stats").innerText(), /^Stopped/);
  await until(page, () => document.activeElement.id === "prompt");

  stage.plays.push(answer => answer.say(" three."));
  await button(page, "Continue this answer").click();
  await answered(page);
  assert.equal(await lastAnswer(page).innerText(), "One two three.");
  assert.deepEqual(stage.chats[1].messages.at(-1), {role: "assistant", content: "One **two**"});
  assert.equal(await page.locator(".message.model").count(), 1);
});

test("stopping ends the work of the real server", async t => {
  const page = await open(t);
  stage.change = body => ({...body, ignore_eos: true, max_tokens: 4000});
  await page.fill("#prompt", "Tell me a short story.");
  await page.press("#prompt", "Enter");
  await until(page, () => (document.querySelector(".answer")?.innerText.length ?? 0) > 40);
  await page.keyboard.press("Escape");
  await answered(page);
  assert.ok((await lastAnswer(page).innerText()).length > 40);
  await until(page, async () => (await (await fetch("props")).json()).slots.running === 0);
});

test("an answer goes on while another conversation is shown", async t => {
  const page = await open(t);
  let first;
  stage.plays.push(answer => { first = answer; answer.text("slow "); });
  await page.fill("#prompt", "first");
  await page.press("#prompt", "Enter");
  await until(page, () => document.querySelector(".answer")?.innerText.startsWith("slow"));
  await button(page, "New chat Alt N").click();
  stage.plays.push(answer => answer.say("quick"));
  await ask(page, "second");
  assert.deepEqual(await answers(page), ["quick"]);
  first.text("but steady");
  first.end();
  await page.locator(".conversation .name", {hasText: "first"}).click();
  await until(page, () => document.querySelector(".answer")?.innerText === "slow but steady");
  await answered(page);
});

// ---------------------------------------------------------------- storing

test("conversations are there after a reload, and go when they are deleted", async t => {
  const page = await open(t);
  await greedy(page);
  await ask(page, "What is the capital of Italy?");
  await button(page, "New chat Alt N").click();
  await ask(page, "Who are you?");
  await stored(page);
  await page.fill("#prompt", "half a thought");
  await page.reload();
  await until(page, () => document.querySelectorAll(".conversation").length === 2);
  assert.deepEqual(await answers(page), ["I am Nano, a very small language model that comes with Flare."]);
  assert.equal(await page.inputValue("#prompt"), "half a thought");
  await page.locator(".conversation .name", {hasText: "Italy"}).click();
  await until(page, () => document.querySelector(".answer")?.innerText === "The capital of Italy is Rome.");
  await page.fill("#search", "italy");
  assert.deepEqual(await titles(page), ["What is the capital of Italy?"]);
  await page.fill("#search", "");

  await button(page, "More for What is the capital of Italy?").click();
  await button(page, "Rename").click();
  await page.fill("#ask-input", "Rome");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector("#title").innerText === "Rome");
  await button(page, "More for Rome").click();
  await button(page, "Delete").click();
  await page.locator("#ask-ok").click();
  await until(page, () => document.querySelectorAll(".conversation").length === 1);
  await page.reload();
  await until(page, () => document.querySelectorAll(".conversation").length === 1);
  assert.deepEqual(await titles(page), ["Who are you?"]);
});

test("an answer that a reload cuts is kept as far as it came", async t => {
  const page = await open(t);
  stage.plays.push(answer => answer.text("as far as it came"));
  await page.fill("#prompt", "go");
  await page.press("#prompt", "Enter");
  const isStored = async () => {
    const {heads, load} = await import("/web/store.js");
    const [head] = await heads();
    return head && Object.values((await load(head.id)).nodes).some(node => node.text === "as far as it came");
  };
  while (!await page.evaluate(isStored));
  await page.reload();
  await until(page, () => document.querySelector(".answer")?.innerText === "as far as it came");
  assert.match(await page.locator(".stats").innerText(), /^Stopped/);
});

test("two tabs see each other's changes", async t => {
  const page = await open(t);
  stage.plays.push(answer => answer.say("one"));
  await ask(page, "shared");
  await stored(page);
  const other = await open(t, {}, {context: page.context()});
  await until(other, () => document.querySelectorAll(".conversation").length === 1);
  await other.locator(".conversation .name").click();
  stage.plays.push(answer => answer.say("two"));
  await ask(page, "more");
  await until(other, () => document.querySelectorAll(".answer").length === 2);
  await button(page, "More for shared").click();
  await button(page, "Delete").click();
  await page.locator("#ask-ok").click();
  await until(other, () => document.querySelectorAll(".conversation").length === 0);
});

test("export and import bring everything back", async t => {
  const page = await open(t);
  stage.plays.push(answer => answer.say("# One\n\n`code`"), answer => answer.say("Two"));
  await ask(page, "Question <b>?</b>");
  await page.locator(".message.model").getByRole("button", {name: "Answer again"}).click();
  await answered(page);
  await stored(page);
  const [file] = await Promise.all([page.waitForEvent("download"), button(page, "Export all").click()]);
  const path = join(tmpdir(), `flare-web-${process.pid}.json`);
  await file.saveAs(path);
  const exported = JSON.parse(await readFile(path, "utf8"));
  assert.equal(exported.format, "flare-conversations");
  assert.equal(exported.conversations.length, 1);

  const other = await open(t);
  await other.setInputFiles("#import-file", path);
  await until(other, () => document.querySelector(".answer")?.innerText === "Two");
  assert.equal(await other.locator(".message.model .place").innerText(), "2/2");
  await button(other, "Earlier version").click();
  assert.equal(await other.locator(".answer h3.h1").innerText(), "One");
  assert.equal(await other.locator(".said").innerText(), "Question <b>?</b>");

  const [text] = await Promise.all([other.waitForEvent("download"), (async () => {
    await other.locator(".conversation .more").click();
    await button(other, "As Markdown").click();
  })()]);
  assert.match(await readFile(await text.path(), "utf8"), /^# Question <b>\?<\/b>\n\n## You\n\nQuestion <b>\?<\/b>\n\n## Model\n\n# One/);
});

test("a wrong file is refused with the reason", async t => {
  const page = await open(t);
  const good = {format: "flare-conversations", version: 1, conversations: [{title: "t", created: 1, updated: 1, settings: {},
    nodes: {root: {children: ["a"]}, a: {role: "user", text: "x", children: []}}}]};
  const wrong = change => { const copy = structuredClone(good); change(copy); return JSON.stringify(copy); };
  const files = {
    "no export": "{}",
    "JSON": "{",
    "version 9": wrong(f => { f.version = 9; }),
    "no messages": wrong(f => { delete f.conversations[0].nodes; }),
    "unknown role": wrong(f => { f.conversations[0].nodes.a.role = "root"; }),
    "hang together wrongly": wrong(f => { f.conversations[0].nodes.a.children = ["a"]; }),
    "not part of the file": wrong(f => { f.conversations[0].nodes.a.images = ["https://example.com/x.png"]; }),
    "text is missing": wrong(f => { f.conversations[0].nodes.a.text = 5; }),
  };
  for (const [reason, text] of Object.entries(files)) {
    await page.setInputFiles("#import-file", {name: "file.json", mimeType: "application/json", buffer: Buffer.from(text)});
    await until(page, wanted => document.querySelector("#notice").innerText.includes(wanted), reason);
  }
  assert.equal(await page.locator(".conversation").count(), 0);
  await page.setInputFiles("#import-file", {name: "file.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(good))});
  await until(page, () => document.querySelectorAll(".conversation").length === 1);
});

test("a full browser is told about, and nothing stored is lost", async t => {
  const page = await open(t);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Storage.overrideQuotaForOrigin", {origin: new URL(stage.url).origin, quotaSize: 1000000});
  stage.plays.push(answer => answer.say("kept"));
  await ask(page, "small");
  await stored(page);
  await button(page, "New chat Alt N").click();
  // Noise, since a browser may compress what it stores.
  const noise = randomBytes(1800000).toString("base64").replace(/.{64}/g, "$& ");
  stage.plays.push(answer => answer.say(noise));
  await ask(page, "large");
  await until(page, () => document.querySelector("#notice").innerText.includes("not saved"));
  assert.match(await page.locator("#notice").innerText(), /“large” is not saved\. The browser gives this page no more space\. Export it, or delete/);
  await page.reload();
  await until(page, () => document.querySelectorAll(".conversation").length > 0);
  await page.locator(".conversation .name", {hasText: "small"}).click();
  await until(page, () => document.querySelector(".answer")?.innerText === "kept");
});

// ---------------------------------------------------------------- keys and errors

test("a key is asked for, and kept for the tab alone", async t => {
  stage.key = "secret-key-of-the-tab";
  const page = await open(t, {}, {ready: false});
  await page.locator("#key-dialog").waitFor();
  await page.fill("#key", "wrong");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector("#key-error").innerText.includes("does not take this key"));
  await page.fill("#key", stage.key);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#state[data-state=ready]");
  stage.plays.push(answer => answer.say("welcome"));
  await ask(page, "hello");
  assert.deepEqual(await answers(page), ["welcome"]);
  await stored(page);

  // A key that is taken back is asked for again, and the message is sent then.
  stage.key = "another-key";
  stage.plays.push(answer => answer.say("again"));
  await page.fill("#prompt", "once more");
  await page.press("#prompt", "Enter");
  await page.locator("#key-dialog").waitFor();
  await page.fill("#key", "another-key");
  await page.keyboard.press("Enter");
  await until(page, () => [...document.querySelectorAll(".answer")].at(-1)?.innerText === "again");
  assert.equal(await page.locator(".message").count(), 4);

  const kept = await page.evaluate(async () => {
    const {heads, load} = await import("/web/store.js");
    const all = await Promise.all((await heads()).map(head => load(head.id)));
    return JSON.stringify([all, {...localStorage}, document.cookie, location.href]);
  });
  assert.ok(!kept.includes("-key"), kept);
  await page.reload();
  await page.waitForSelector("#state[data-state=ready]");
  const other = await open(t, {}, {context: page.context(), ready: false});
  await other.locator("#key-dialog").waitFor();
  await button(other, "Not now").click();
  assert.match(await other.locator("#notice").innerText(), /asks for a key/);
});

test("a server with keys serves the page without one, and answers with one", async t => {
  const behind = await Stage.open(process.env.FLARE_KEY_URL);
  t.after(() => behind.close());
  assert.equal((await fetch(behind.url + "props")).status, 401);
  const context = await browser.newContext(DESKTOP);
  contexts.push(context);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(behind.url);
  await page.locator("#key-dialog").waitFor();
  await page.fill("#key", process.env.FLARE_KEY);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#state[data-state=ready]");
  await greedy(page);
  await ask(page, "What is the capital of Italy?");
  assert.deepEqual(await answers(page), ["The capital of Italy is Rome."]);
});

test("--no-web takes the page away", async () => {
  for (const path of ["/", "/web/page.js"]) {
    const response = await fetch(process.env.FLARE_NO_WEB_URL + path);
    assert.equal(response.status, 404);
    assert.equal((await response.json()).error.code, "not_found");
  }
  assert.equal((await fetch(process.env.FLARE_NO_WEB_URL + "/props")).status, 200);
});

test("errors are said in words, with what can be done", async t => {
  const page = await open(t);
  const problem = page.locator(".problem");
  stage.plays.push(answer => answer.fail(429, "server_overloaded", "the queue is full, try again later", {"Retry-After": "1"}));
  await ask(page, "busy?");
  assert.match(await problem.innerText(), /^The server is busy\. Try again in a moment\.\s+server_overloaded · req_staged/);
  stage.plays.push(answer => { answer.text("half"); answer.event({error: {message: "it broke", code: "engine_failed"}}); answer.response.end(); });
  await button(page, "Try again").click();
  await until(page, () => document.querySelector(".problem").innerText.includes("engine has failed"));
  assert.equal(await lastAnswer(page).innerText(), "half");
  stage.plays.push(answer => { answer.text("cut"); answer.response.end(); });
  await button(page, "Try again").click();
  await until(page, () => document.querySelector(".problem").innerText.includes("The connection broke."));
  stage.plays.push(answer => { answer.text("torn"); setImmediate(() => answer.response.destroy()); });
  await button(page, "Try again").click();
  await until(page, () => /cut|network/.test(document.querySelector(".problem .mono")?.innerText));
  stage.plays.push(answer => answer.fail(400, "context_length_exceeded", "the prompt has 5000 tokens and the context holds 4096"));
  await button(page, "Try again").click();
  await until(page, () => document.querySelector(".problem").innerText.includes("longer than the model can read"));
  stage.plays.push(answer => answer.say("at last"));
  await button(page, "Try again").click();
  await until(page, () => document.querySelector(".answer").innerText === "at last");
  await answered(page);
  assert.equal(await problem.isVisible(), false);
  assert.equal(await page.locator(".message").count(), 2);
});

test("a server that is away comes back by itself", async t => {
  const page = await open(t);
  stage.down = true;
  await ask(page, "anybody there?");
  assert.match(await page.locator(".problem").innerText(), /The server cannot be reached\./);
  await page.waitForSelector("#state[data-state=off]");
  stage.down = false;
  await page.waitForSelector("#state[data-state=ready]");
  stage.plays.push(answer => answer.say("yes"));
  await button(page, "Try again").click();
  await until(page, () => document.querySelector(".answer").innerText === "yes");
});

// ---------------------------------------------------------------- tools and images

test("calls are shown and not run", async t => {
  const page = await open(t);
  await greedy(page);
  await button(page, "Settings").click();
  await page.fill("#tools", "{");
  assert.match(await page.locator("#tools-error").innerText(), /no JSON/);
  await page.fill("#tools", JSON.stringify(WEATHER));
  assert.equal(await page.locator("#tools-error").isVisible(), false);
  await page.keyboard.press("Escape");
  await ask(page, "What is the weather in Paris?");
  assert.deepEqual(stage.chats[0].tools, WEATHER);
  assert.equal(await page.locator(".call .name").innerText(), "get_weather");
  assert.deepEqual(JSON.parse(await page.locator(".call code").innerText()), {city: "Paris"});
  assert.match(await page.locator(".call").innerText(), /not run/);
  stage.plays.push(answer => answer.say("fine"));
  await ask(page, "And now?");
  const {messages} = stage.chats[1];
  assert.deepEqual(messages.map(m => m.role), ["user", "assistant", "tool", "user"]);
  assert.equal(messages[2].tool_call_id, messages[1].tool_calls[0].id);
});

const paste = (page, name, type = "image/png") => page.evaluate(([name, type, data]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([Uint8Array.from(atob(data), c => c.charCodeAt(0))], name, {type}));
  document.activeElement.dispatchEvent(new ClipboardEvent("paste", {clipboardData: transfer, bubbles: true, cancelable: true}));
}, [name, type, PNG]);

test("images are pasted, dropped, and refused nicely by a model that reads text", async t => {
  const page = await open(t);
  await page.focus("#prompt");
  await paste(page, "a.png");
  await page.locator("#images img").waitFor();
  assert.equal(await page.locator("#image-note").innerText(), "nano reads text only and will refuse images.");
  await page.evaluate(data => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(data), c => c.charCodeAt(0))], "b.png", {type: "image/png"}));
    for (const type of ["dragenter", "dragover", "drop"]) document.body.dispatchEvent(new DragEvent(type, {dataTransfer: transfer, bubbles: true, cancelable: true}));
  }, PNG);
  await until(page, () => document.querySelectorAll("#images img").length === 2);
  assert.equal(await page.locator("#drop").isVisible(), false);
  await button(page, "Remove image 2").click();
  assert.equal(await page.locator("#images img").count(), 1);
  await paste(page, "broken.png", "image/bmp");  // PNG bytes by another name are still an image
  await until(page, () => document.querySelectorAll("#images img").length === 2);
  await button(page, "Remove image 2").click();
  await greedy(page);
  await ask(page, "What is the capital of Italy?");
  assert.deepEqual(stage.chats[0].messages[0].content[0], {type: "image_url", image_url: {url: "data:image/png;base64," + PNG}});
  assert.match(await page.locator(".problem").innerText(), /^This model reads text only and cannot see images\./);
  assert.match(await page.locator(".problem").innerText(), /vision_unavailable/);
  await shot(page, "image-refused");
  await button(page, "Send without images").click();
  await answered(page);
  await until(page, () => document.querySelector(".answer").innerText === "The capital of Italy is Rome.");
});

test("a file that is no image is told about", async t => {
  const page = await open(t);
  await page.setInputFiles("#attach-file", {name: "x.png", mimeType: "image/bmp", buffer: Buffer.from("no image")});
  await until(page, () => document.querySelector("#notice").innerText.includes("“x.png” is no image that this browser can read."));
});

// ---------------------------------------------------------------- hostile text

const ATTACKS = [
  "<script>window.pwned = 1</script>",
  "<img src=x onerror=\"window.pwned=1\">",
  "<svg onload=window.pwned=1>",
  "<iframe srcdoc=\"<script>parent.pwned=1</script>\"></iframe>",
  "<a href=\"javascript:window.pwned=1\">x</a>",
  "[x](javascript:window.pwned=1)",
  "[x](JaVaScRiPt:window.pwned=1)",
  "[x](<java\tscript:window.pwned=1>)",
  "[x](&#106;avascript:window.pwned=1)",
  "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
  "[x](vbscript:msgbox) [x](file:///etc/passwd) [x](blob:http://x/y)",
  "![x](https://tracker.invalid/pixel.png)",
  "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+)",
  "<javascript:window.pwned=1>",
  "<https://x.invalid/\" onclick=\"window.pwned=1>",
  "[a](https://x.invalid/\"onmouseover=\"window.pwned=1)",
  "```\"><img src=x onerror=window.pwned=1>\ncode\n```",
  "```</code></pre><script>window.pwned=1</script>\n</code></pre><script>window.pwned=1</script>\n```",
  "`<img src=x onerror=window.pwned=1>`",
  "| <img src=x onerror=window.pwned=1> |\n|---|\n| <script>window.pwned=1</script> |",
  "<style>body{display:none}</style><link rel=stylesheet href=https://x.invalid/x.css>",
  "<base href=https://x.invalid/><meta http-equiv=refresh content=\"0;url=https://x.invalid/\">",
  "<form action=https://x.invalid/><input name=q autofocus onfocus=window.pwned=1></form>",
  "&lt;img src=x onerror=window.pwned=1&gt; &#60;script&#62;window.pwned=1&#60;/script&#62;",
  "# <img src=x onerror=window.pwned=1>\n> <img src=x onerror=window.pwned=1>\n- <img src=x onerror=window.pwned=1>",
  "{{constructor.constructor('window.pwned=1')()}} ${window.pwned=1}",
  "\u202egnp.exe\u0000<script>window.pwned=1</script>",
];

async function assertHarmless(page) {
  const found = await page.evaluate(() => {
    const allowed = new Set(["P", "BR", "EM", "STRONG", "DEL", "CODE", "PRE", "A", "H3", "H4", "H5", "H6", "UL", "OL", "LI", "BLOCKQUOTE", "HR", "DIV",
      "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "FIGURE", "FIGCAPTION", "SPAN", "BUTTON", "SVG", "USE"]);
    const wrong = [];
    for (const element of document.querySelectorAll(".md *")) {
      if (!allowed.has(element.tagName.toUpperCase())) wrong.push(element.outerHTML);
      for (const {name} of element.attributes) if (/^on|^style|^src/.test(name)) wrong.push(element.outerHTML);
      if (element.tagName === "A") {
        if (!/^(https?|mailto):/.test(element.href)) wrong.push(element.outerHTML);
        if (!/noopener/.test(element.rel) || !/noreferrer/.test(element.rel)) wrong.push(element.outerHTML);
      }
    }
    return {wrong, pwned: window.pwned ?? null};
  });
  assert.deepEqual(found, {wrong: [], pwned: null});
}

test("nothing that a model writes runs, loads or leaves its place", async t => {
  const page = await open(t);
  for (const attack of ATTACKS) stage.plays.push(answer => {
    answer.delta({reasoning_content: attack});
    for (const c of attack.match(/[\s\S]{1,7}/g)) answer.text(c);  // in pieces, so that every stage of it is shown
    answer.end();
  });
  for (const attack of ATTACKS) {
    await ask(page, attack);
    await page.locator(".message.model summary").last().click();
  }
  await assertHarmless(page);
  const said = await page.locator(".said").allTextContents();
  assert.deepEqual(said, ATTACKS);
  await stored(page);
  await page.reload();
  await until(page, n => document.querySelectorAll(".message.model").length === n, ATTACKS.length);
  await assertHarmless(page);
});

test("names of conversations, models, tools and errors are text", async t => {
  const attack = "<img src=x onerror=window.pwned=1>";
  const page = await open(t);
  stage.plays.push(answer => {
    answer.delta({tool_calls: [{index: 0, id: attack, type: "function", function: {name: attack, arguments: ""}}]});
    answer.delta({tool_calls: [{index: 0, function: {arguments: JSON.stringify({x: attack})}}]});
    answer.end("tool_calls");
  });
  await ask(page, attack);
  assert.equal(await page.locator(".call .name").innerText(), attack);
  stage.plays.push(answer => answer.fail(400, attack, attack));
  await ask(page, "next");
  await stored(page);
  await until(page, wanted => document.querySelector(".conversation .name")?.innerText === wanted, attack);
  await page.locator(".conversation .more").click();
  await button(page, "Rename").click();
  await page.fill("#ask-input", attack + "<script>window.pwned=1</script>");
  await page.keyboard.press("Enter");
  await until(page, wanted => document.querySelector("#title").innerText.startsWith(wanted) && !document.querySelector("dialog[open]"), attack + "<script>");
  await page.locator(".conversation .more").click();
  await button(page, "Delete").click();
  await until(page, wanted => document.querySelector("#ask-text").innerText.includes(wanted), attack);
  assert.equal(await page.locator("img[src=x]").count(), 0);
  assert.equal(await page.evaluate(() => window.pwned ?? null), null);
});

// ---------------------------------------------------------------- Markdown

// [text, what the renderer makes of it] in a short notation of the tree: name(children), text in quotes.
const TREES = [
  ["# One\n\n## Two *x*", "h3('One') h4('Two ' em('x'))"],
  ["**a** *b* ~~c~~ ***d*** __e__ _f_", "p(strong('a') ' ' em('b') ' ' del('c') ' ' strong(em('d')) ' ' strong('e') ' ' em('f'))"],
  ["snake_case_name and 2 * 3 * 4", "p('snake_case_name and 2 * 3 * 4')"],
  ["**open and *half", "p('**open and *half')"],
  ["a `b*c*` ``d ` e``", "p('a ' code('b*c*') ' ' code('d ` e'))"],
  ["a\nb\\\nc", "p('a' br() 'b' br() 'c')"],
  ["- a\n- b\n  - c\n  - d\n- e", "ul(li('a') li('b' ul(li('c') li('d'))) li('e'))"],
  ["1. a\n2. b\n\n   more\n3. c", "ol(li(p('a')) li(p('b') p('more')) li(p('c')))"],
  ["7. a\n8. b", "ol(li('a') li('b'))"],
  ["- [ ] a\n- [x] b", "ul(li(span('☐') 'a') li(span('☑') 'b'))"],
  ["1. a\n   ```py\n   x = 1\n   ```\n2. b", "ol(li('a' figure(figcaption(span('py') button()) pre(code('x = 1')))) li('b'))"],
  ["> a\n> > b\n\nc", "blockquote(p('a') blockquote(p('b'))) p('c')"],
  ["a\n\n---\n\nb", "p('a') hr() p('b')"],
  ["| a | b |\n|:--|--:|\n| 1 | `|` \\| 2 |\n| 3 |", "div(table(thead(tr(th('a') th('b'))) tbody(tr(td('1') td('`')) tr(td('3') td()))))"],
  ["a | b\n- | -\n1 | **2**", "div(table(thead(tr(th('a') th('b'))) tbody(tr(td('1') td(strong('2'))))))"],
  ["```js\nlet x = '<b>';\n\n  y\n```\nafter", "figure(figcaption(span('js') button()) pre(code('let x = ’<b>’;\n\n  y'))) p('after')"],
  ["```\nnever closed", "figure(figcaption(span('text') button()) pre(code('never closed')))"],
  ["~~~~\n```\n~~~~", "figure(figcaption(span('text') button()) pre(code('```')))"],
  ["[a *b*](https://x.org/y \"t\") and <https://x.org/>", "p(a('a ' em('b')) ' and ' a('https://x.org/'))"],
  ["see https://x.org/a_b_c(d). And www.x.org, too", "p('see ' a('https://x.org/a_b_c(d)') '. And ' a('www.x.org') ', too')"],
  ["[a](mailto:a@x.org) [b](ftp://x.org) [c](/local) [d]", "p(a('a') ' [b](ftp://x.org) [c](/local) [d]')"],
  ["![alt](https://x.org/p.png)", "p(a('alt'))"],
  ["a &amp; b &lt;c&gt; &#65; &nope; \\*d\\*", "p('a & b <c> A &nope; *d*')"],
  ["<b>x</b> a<br>b", "p('<b>x</b> a' br() 'b')"],
  ["Title\n===\n\nSub\n---", "h3('Title') h4('Sub')"],
  ["$x^2$ and \\(y\\)", "p('$x^2$ and (y)')"],
];

test("Markdown becomes the allowed elements", async t => {
  const page = await open(t);
  const trees = await page.evaluate(async texts => {
    const {GrowingMarkdown} = await import("/web/markdown.js");
    const tree = node => (node.nodeType === Node.TEXT_NODE ? `'${node.data.replaceAll("'", "’")}'`
      : node instanceof SVGElement ? null : `${node.localName}(${[...node.childNodes].map(tree).filter(Boolean).join(" ")})`);
    return texts.map(text => {
      const element = document.createElement("div");
      new GrowingMarkdown(element).set(text);
      return [...element.childNodes].map(tree).join(" ");
    });
  }, TREES.map(([text]) => text));
  TREES.forEach(([text, expected], i) => assert.equal(trees[i], expected, JSON.stringify(text)));
});

test("a growing text ends as the same text at once, wherever it is cut", async t => {
  const page = await open(t);
  const texts = [...TREES.map(([text]) => text), TREES.map(([text]) => text).join("\n\n"), TREES.map(([text]) => text).join("\n"),
    ATTACKS.join("\n\n"), "a\r\nb\r\n\r\n- c\r\n- d\r\n"];
  const wrong = await page.evaluate(async texts => {
    const {GrowingMarkdown} = await import("/web/markdown.js");
    const wrong = [];
    for (const text of texts) {
      const grown = document.createElement("div");
      const growing = new GrowingMarkdown(grown);
      for (let i = 1; i <= text.length; ++i) growing.set(text.slice(0, i));
      const whole = document.createElement("div");
      new GrowingMarkdown(whole).set(text);
      if (!grown.isEqualNode(whole)) wrong.push([text, grown.outerHTML, whole.outerHTML]);
      growing.set("other");
      if (grown.textContent !== "other") wrong.push([text, "does not start again"]);
    }
    return wrong;
  }, texts);
  assert.deepEqual(wrong, []);
});

test("hostile Markdown is read in linear time", {timeout: 60000}, async t => {
  const page = await open(t);
  const n = 20000;
  const units = ["*", "_", "**a ", "*a **b ", "[", "![", "[a](", "[a](<", "`", "`a``", "``a`", "<", "&", "\\", "> ", "- ", "1. ", "| ", "|a|\n|-|\n", "~~", "# ",
    "http://", "https://x.y/((((", "www.", "\n", " ", "\t", "a\n", "- a\n", "> a\n\n", "(", "](x)", "***a** ", "_a*b_c* "];
  // Quadratic reading of any of these takes minutes; the test's time limit is what would notice.
  const done = await page.evaluate(async ([units, n]) => {
    const {GrowingMarkdown} = await import("/web/markdown.js");
    for (const unit of units)
      for (const text of [unit.repeat(Math.ceil(n / unit.length)), "# " + unit.repeat(Math.ceil(n / unit.length)) + "x"])
        new GrowingMarkdown(document.createElement("div")).set(text);
    return true;
  }, [units, n]);
  assert.ok(done);
});

test("code is copied as it is", async t => {
  const page = await open(t, {permissions: ["clipboard-read", "clipboard-write"]});
  stage.plays.push(answer => answer.say("```py\nprint('<a>')\n\tx\n```"));
  await ask(page, "code");
  await button(page, "Copy the code").click();
  await until(page, () => document.querySelector(".code .copy use").getAttribute("href") === "#i-check");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "print('<a>')\n    x");
  await page.locator(".message.model").getByRole("button", {name: "Copy", exact: true}).click();
  await until(page, async () => (await navigator.clipboard.readText()).startsWith("```py"));
});

// ---------------------------------------------------------------- for everybody

test("everything is done with the keyboard, and the focus is seen", async t => {
  const page = await open(t);
  const focusIsSeen = () => page.evaluate(() => {
    const style = getComputedStyle(document.activeElement);
    const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    const box = document.activeElement.id === "prompt" && getComputedStyle(document.querySelector("#composer")).boxShadow.includes("0px 0px 0px 1px");
    return ring || box ? null : document.activeElement.outerHTML;
  });
  const tabTo = async (wanted, key = "Tab") => {
    for (let i = 0; i < 60; ++i) {
      await page.keyboard.press(key);
      if (await page.evaluate(() => document.activeElement === document.body)) continue;  // past the last one
      assert.equal(await focusIsSeen(), null);
      if (await page.evaluate(selector => document.activeElement.matches(selector), wanted)) return;
    }
    assert.fail(`${wanted} cannot be reached`);
  };
  await page.evaluate(() => document.activeElement.blur());
  await tabTo(".skip");
  await page.keyboard.press("Enter");
  await until(page, () => document.activeElement.id === "prompt");
  await tabTo("#new-chat");
  await page.keyboard.press("/");
  await until(page, () => document.activeElement.id === "prompt");
  await page.keyboard.type("What is the capital of Italy?");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("Please.");
  assert.equal(await page.inputValue("#prompt"), "What is the capital of Italy?\nPlease.");
  stage.plays.push(answer => answer.say("Rome."));
  await page.keyboard.press("Enter");
  await answered(page);
  assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
  // Edit by the arrow, give it up, then for good.
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Escape");
  await until(page, () => document.activeElement.dataset.what === "edit");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("And of France?");
  stage.plays.push(answer => answer.say("Paris."));
  await page.keyboard.press("Enter");
  await answered(page);
  assert.deepEqual(await answers(page), ["Paris."]);
  await tabTo(".message.user [data-what=back]", "Shift+Tab");
  await page.keyboard.press("Enter");
  assert.deepEqual(await answers(page), ["Rome."]);
  assert.equal(await page.evaluate(() => document.activeElement.closest(".message") !== null), true);
  // Stop with Escape.
  await tabTo("#prompt");
  stage.plays.push(answer => answer.text("endless"));
  await page.keyboard.type("go");
  await page.keyboard.press("Enter");
  await until(page, () => [...document.querySelectorAll(".answer")].at(-1)?.innerText === "endless");
  await page.keyboard.press("Escape");
  await answered(page);
  // Settings: in, changed, out; the focus comes back.
  await tabTo("#open-settings", "Shift+Tab");
  await page.keyboard.press("Enter");
  await tabTo("#s-temperature");
  await page.keyboard.type("0");
  await page.keyboard.press("Escape");
  await until(page, () => document.activeElement.id === "open-settings");
  // The list: rename and delete.
  await tabTo(".conversation .more", "Shift+Tab");
  await page.keyboard.press("Enter");
  await until(page, () => document.activeElement.dataset.what === "rename");
  await page.keyboard.press("Enter");
  await page.keyboard.type("Capitals");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector("#title").innerText === "Capitals");
  await page.keyboard.press("Alt+n");
  await until(page, () => document.activeElement.id === "prompt" && document.querySelectorAll(".message").length === 0);
  await tabTo(".conversation .name", "Shift+Tab");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelectorAll(".message").length === 4);
  await tabTo(".conversation .more", "Shift+Tab");
  await page.keyboard.press("Enter");
  await tabTo("[data-what=delete]");
  await page.keyboard.press("Enter");
  await tabTo("#ask-ok");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelectorAll(".conversation").length === 0);
  await until(page, () => document.activeElement.id === "new-chat");
});

test("every control has a name, and one polite region tells what happens", async t => {
  const page = await open(t);
  stage.plays.push(answer => answer.say("The **answer**."));
  await ask(page, "question");
  await until(page, () => document.querySelector("#live").innerText.includes("The **answer**."));
  const found = await page.evaluate(() => {
    const nameless = [...document.querySelectorAll("button, input, select, textarea, a, dialog, nav, aside, img, [role=group]")].filter(element => {
      if (element.closest("#ask")) return false;  // named when it opens
      const by = (element.getAttribute("aria-labelledby") ?? "").split(" ").map(id => document.getElementById(id)?.textContent ?? "").join("");
      return !(element.hasAttribute("alt") || element.getAttribute("aria-label") || by || element.textContent.trim() ||
        element.labels?.length || element.type === "file");
    });
    const regions = [...document.querySelectorAll("[aria-live], [role=alert], [role=status], [role=log]")].map(e => e.id);
    const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
    const repeated = ids.filter((id, i) => ids.indexOf(id) !== i);
    return {nameless: nameless.map(e => e.outerHTML), regions, repeated, lang: document.documentElement.lang};
  });
  assert.deepEqual(found, {nameless: [], regions: ["live"], repeated: [], lang: "en"});
});

const RICH = `# Heading\n\nText with \`code\`, a [link](https://x.org/), **bold** and ~~gone~~.\n\n> A quote\n\n- one\n- [x] done\n\n` +
  `| a | b |\n|---|--:|\n| 1 | 2 |\n\n\`\`\`python\ndef f(x):\n    return x + 1\n\`\`\`\n\nThe end.`;

// A page with one of everything on it.
async function richPage(t, options) {
  const page = await open(t, options);
  stage.plays.push(answer => {
    answer.delta({reasoning_content: "First I think about *it*.\n\nThen I answer."});
    answer.text(RICH);
    answer.delta({tool_calls: [{index: 0, id: "c1", type: "function", function: {name: "get_weather", arguments: "{\"city\": \"Paris\"}"}}]});
    answer.end("tool_calls");
  }, answer => answer.fail(429, "server_overloaded", "the queue is full"));
  const say = async text => {
    await page.fill("#prompt", text);
    await page.click("#send");
    await answered(page);
  };
  await say("Show me everything.");
  await page.locator("summary").click();
  await say("And an error?");
  return page;
}

// Texts whose contrast with what is behind them is below 4.5 to 1.
const lowContrast = page => page.evaluate(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const c = rgba(getComputedStyle(e).backgroundColor);
      layers.push(c);
      if (c[3] === 1) break;
    }
    return layers.reverse().reduce((under, c) => over(c, under), [255, 255, 255, 1]);
  };
  const low = [];
  const check = (element, colour, what) => {
    const back = behind(element);
    const front = over(rgba(colour), back);
    const [a, b] = [luminance(front), luminance(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${what}: ${element.outerHTML.slice(0, 120)}`);
  };
  for (const element of document.querySelectorAll("body *")) {
    if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true}) || element.closest(":disabled")) continue;
    if ([...element.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim()) && !element.closest("option"))
      check(element, getComputedStyle(element).color, "text");
    if (element.localName === "svg") check(element, getComputedStyle(element).stroke, "icon");
    if (element.placeholder) check(element, getComputedStyle(element, "::placeholder").color, "placeholder");
    if (element.localName === "select") check(element, getComputedStyle(element).color, "choice");
  }
  return low;
});

for (const colorScheme of ["light", "dark"]) {
  test(`contrast is enough: ${colorScheme}`, async t => {
    const page = await richPage(t, {colorScheme});
    const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.ok(colorScheme === "dark" ? back === "rgb(22, 20, 18)" : back === "rgb(251, 250, 248)", back);
    assert.deepEqual(await lowContrast(page), []);
    await shot(page, "rich-end-" + colorScheme);
    await page.locator("#scroll").evaluate(e => { e.scrollTop = 0; });
    await shot(page, "rich-" + colorScheme);
    await button(page, "Settings").click();
    assert.deepEqual(await lowContrast(page), []);
    await shot(page, "settings-" + colorScheme);
    // The other one by hand, and it stays.
    const other = colorScheme === "dark" ? "light" : "dark";
    await page.selectOption("#theme", other);
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), back);
    await page.reload();
    await page.waitForSelector("#state[data-state=ready]");
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), back);
  });
}

const fits = page => page.evaluate(() => {
  const wide = [...document.querySelectorAll("body *")].filter(e => e.checkVisibility({visibilityProperty: true}) &&
    !e.closest("#sidebar, pre, .table, .visually-hidden, .skip, svg") && e.getBoundingClientRect().right > innerWidth + 1);
  return {scrolls: document.scrollingElement.scrollWidth > innerWidth, wide: wide.map(e => e.outerHTML.slice(0, 100))};
});

for (const [name, options] of Object.entries({
  "a phone": PHONE,
  "a phone on its side": {...PHONE, viewport: {width: 780, height: 360}},
  "the narrowest one": {viewport: {width: 320, height: 568}, isMobile: true, hasTouch: true},
  "a window at 200 %": {viewport: {width: 640, height: 400}, deviceScaleFactor: 2},
})) {
  test(`everything fits: ${name}`, async t => {
    const page = await richPage(t, options);
    assert.deepEqual(await fits(page), {scrolls: false, wide: []});
    const box = await page.locator("#composer").boundingBox();
    assert.ok(box.y > 0 && box.y + box.height <= options.viewport.height, JSON.stringify(box));
    assert.ok((await page.locator("#scroll").boundingBox()).height > options.viewport.height * 0.35);
    await shot(page, "fits-" + name.replace(/[^a-z0-9]+/g, "-"));
    await button(page, "Conversations").click();
    await page.locator(".conversation .name").click();
    await button(page, "Settings").click();
    assert.deepEqual(await fits(page), {scrolls: false, wide: []});
    const dialog = await page.locator("#settings").boundingBox();
    assert.ok(dialog.height <= options.viewport.height && dialog.width <= options.viewport.width);
    await page.locator("#delete-all").scrollIntoViewIfNeeded();
    assert.ok(await page.locator("#delete-all").isVisible());
  });
}

test("touch: Enter starts a line, buttons are large enough", async t => {
  const page = await open(t, PHONE);
  await page.fill("#prompt", "one");
  await page.press("#prompt", "Enter");
  assert.equal(await page.inputValue("#prompt"), "one\n");
  stage.plays.push(answer => answer.say("yes"));
  await page.tap("#send");
  await answered(page);
  const small = await page.evaluate(() => [...document.querySelectorAll("main button")].filter(e => e.checkVisibility()).filter(e => {
    const box = e.getBoundingClientRect();
    return box.width < 24 || box.height < 24;
  }).map(e => e.outerHTML));
  assert.deepEqual(small, []);
});

test("reduced motion: nothing moves", async t => {
  const page = await open(t, {reducedMotion: "reduce"});
  stage.plays.push(answer => answer.text("waiting"));
  await page.fill("#prompt", "go");
  await page.press("#prompt", "Enter");
  await until(page, () => document.querySelector(".answer")?.innerText === "waiting");
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  await page.keyboard.press("Escape");
  await answered(page);
});

test("the view follows a growing answer until somebody scrolls up", async t => {
  const page = await open(t);
  let growing;
  stage.plays.push(answer => { growing = answer; answer.text("line\n\n".repeat(100)); });
  await page.fill("#prompt", "go");
  await page.press("#prompt", "Enter");
  const atEnd = () => { const e = document.querySelector("#scroll"); return e.scrollHeight > 2000 && e.scrollHeight - e.scrollTop - e.clientHeight < 60; };
  await until(page, atEnd);
  growing.text("line\n\n".repeat(50));
  await until(page, () => document.querySelectorAll(".answer p").length === 150);
  await until(page, atEnd);
  await page.mouse.move(700, 300);
  await page.mouse.wheel(0, -600);
  await page.locator("#to-end").waitFor();
  const top = await page.locator("#scroll").evaluate(e => e.scrollTop);
  growing.text("line\n\n".repeat(50));
  growing.end();
  await answered(page);
  await until(page, () => document.querySelectorAll(".answer p").length === 200);
  assert.ok(Math.abs(await page.locator("#scroll").evaluate(e => e.scrollTop) - top) < 5);
  await page.locator("#to-end").click();
  await until(page, atEnd);
});
