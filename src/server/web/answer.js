// Makes one answer: the request of a conversation, and what the stream brings, put into a node.
import {ApiError, chat} from "./api.js";
import {messages} from "./conversation.js";

// Errors by the server's code, as a person would put them; the server's own words follow.
const TITLES = {
  network: "The server cannot be reached.",
  cut: "The connection broke.",
  server_overloaded: "The server is busy. Try again in a moment.",
  queue_timeout: "The server is busy.",
  model_loading: "The model is still loading. Try again in a moment.",
  server_draining: "The server is shutting down.",
  vision_unavailable: "This model reads text only and cannot see images.",
  context_length_exceeded: "This conversation is longer than the model can read.",
  invalid_api_key: "The server does not take this key.",
  engine_failed: "The server's engine has failed.",
  internal_error: "Something broke inside the server.",
};
// Codes whose title says all that a person needs.
const SPEAKS_FOR_ITSELF = ["network", "cut", "server_overloaded", "model_loading", "server_draining", "vision_unavailable", "invalid_api_key"];

export function problemOf(error) {
  const code = error instanceof ApiError ? error.code : "page";
  const title = TITLES[code] ?? (error instanceof ApiError ? "The server refused this." : "The page stumbled.");
  return {code, title, text: SPEAKS_FOR_ITSELF.includes(code) ? "" : error.message, requestId: error.requestId ?? ""};
}

// Settings as fields of a request. Nothing chosen, nothing sent.
export function requestOf(conversation, last, model) {
  const {sampling, thinking, tools} = conversation.settings;
  const body = {model, messages: messages(conversation, last), ...sampling};
  if (thinking === "on" || thinking === "off") body.enable_thinking = thinking === "on";
  else if (thinking) body.reasoning_effort = thinking;
  if (tools.trim()) body.tools = JSON.parse(tools);
  return body;
}

function addCall(node, {index, id, function: said = {}}) {
  node.calls ??= [];
  node.calls[index] ??= {id: id ?? `call_${index}`, name: said.name ?? "", arguments: ""};
  node.calls[index].arguments += said.arguments ?? "";
}

function addStats(node, {usage, firstMs, totalMs, timings}) {
  node.stats ??= {};
  if (timings) {
    node.stats.rate = timings.predicted_per_second;
    node.stats.firstMs = timings.ttft_ms;
  }
  if (!usage) return;
  const {stats} = node;
  stats.tokens = usage.completion_tokens;
  stats.prompt = usage.prompt_tokens;
  stats.cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  stats.reasoned = usage.completion_tokens_details?.reasoning_tokens ?? 0;
  // A server without timings: what was seen from here.
  stats.firstMs ||= firstMs;
  if (!stats.rate && usage.completion_tokens > 1) stats.rate = (usage.completion_tokens - 1) * 1000 / (totalMs - firstMs);
}

// Streams into `node`; `changed` runs after each piece. `goOn`: what the node says already is continued.
// Resolves when the answer has ended, in whatever way; an ApiError of status 401 is thrown instead.
export async function answer(conversation, node, {model, signal, changed, goOn = false}) {
  const last = goOn ? node.id : node.parent;
  Object.assign(node, {state: "running", model});
  delete node.problem;
  delete node.finish;
  delete node.reason;
  try {
    await chat(requestOf(conversation, last, model), signal, event => {
      if (event.reasoning) node.reasoning = (node.reasoning ?? "") + event.reasoning;
      if (event.text) node.text += event.text;
      if (event.call) addCall(node, event.call);
      if (event.finish) Object.assign(node, {finish: event.finish, reason: event.reason});
      if (event.usage || event.timings) addStats(node, event);
      changed();
    });
    node.state = "done";
  } catch (error) {
    node.state = error.name === "AbortError" ? "stopped" : "failed";
    if (node.state === "stopped") return;
    if (error.status === 401) throw error;
    node.problem = problemOf(error);
  }
}
