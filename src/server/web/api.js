// Requests to this server: the key of the tab, errors as one kind of object, answers as a stream of events.

const KEY = "flare-key";

// What went wrong, in the server's words: `code` is one of its error codes or "network".
export class ApiError extends Error {
  constructor(status, code, message, requestId = "") {
    super(message);
    Object.assign(this, {status, code, requestId});
  }
}

// Kept for the tab and nowhere else.
export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: value => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

async function send(path, options = {}) {
  const headers = {...options.headers};
  if (key.get()) headers.Authorization = "Bearer " + key.get();
  let response;
  try {
    response = await fetch(path, {...options, headers, cache: "no-store", credentials: "omit", redirect: "error"});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "network", "The server cannot be reached.");
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function errorOf(response) {
  let said = {};
  try {
    said = (await response.json()).error ?? {};
  } catch {
    // A proxy's page, or nothing: the status has to do.
  }
  return new ApiError(response.status, said.code ?? "http_" + response.status,
    said.message ?? `The server answered ${response.status} ${response.statusText}`.trim(),
    response.headers.get("x-request-id") ?? "");
}

export const props = async () => (await send("props")).json();

// The data of each event of a stream, parsed. Ends behind [DONE]; an error event is thrown.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let data = [];
  let done = false;
  while (true) {
    const {value, done: closed} = await read(reader);
    buffer += value ?? "";
    let from = 0;
    for (let end; (end = buffer.indexOf("\n", from)) >= 0; from = end + 1) {
      const line = buffer.slice(from, end).replace(/\r$/, "");
      if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      if (line !== "" || !data.length) continue;
      const text = data.join("\n");
      data = [];
      if (text === "[DONE]") { done = true; continue; }
      const event = JSON.parse(text);
      if (event.error) throw new ApiError(200, event.error.code ?? "error", event.error.message ?? "The answer failed.");
      yield event;
    }
    buffer = buffer.slice(from);
    if (closed) break;
  }
  if (!done) throw new ApiError(200, "cut", "The connection ended before the answer did.");
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(200, "cut", "The connection broke before the answer was complete.");
  }
}

// Streams one answer of /v1/chat/completions; `on` gets {reasoning}, {text}, {call}, {finish}, {usage}, {timings}.
export async function chat(body, signal, on) {
  const started = performance.now();
  const response = await send("v1/chat/completions", {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}, timings: true}),
    signal,
  });
  let first = 0;
  for await (const event of events(response.body)) {
    for (const choice of event.choices ?? []) {
      const {delta = {}} = choice;
      const carries = delta.reasoning_content || delta.content || delta.tool_calls;
      if (carries && !first) first = performance.now() - started;
      if (delta.reasoning_content) on({reasoning: delta.reasoning_content});
      if (delta.content) on({text: delta.content});
      for (const call of delta.tool_calls ?? []) on({call});
      if (choice.finish_reason) on({finish: choice.finish_reason, reason: choice.stop_reason ?? null});
    }
    if (event.timings) on({timings: event.timings});
    if (event.usage) on({usage: event.usage, firstMs: first, totalMs: performance.now() - started});
  }
}
