// The Anthropic SDK against `flare run` with the bundled model.
// usage: FLARE_BASE_URL=http://HOST:PORT/v1 FLARE_BUSY_URL=http://HOST:PORT node --test anthropic_test.mjs
//        (the second server runs one request at once and queues none)
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic, { APIUserAbortError, BadRequestError, InternalServerError, NotFoundError } from "@anthropic-ai/sdk";
import { assertPerson, base, italy, model, person, sum, weather } from "./nano.mjs";

const options = { apiKey: "none", maxRetries: 0 };
const client = new Anthropic({ ...options, baseURL: base.replace(/\/v1$/, "") });
const ask = (content, more = {}) => ({
  model: "claude-test",
  max_tokens: 200,
  temperature: 0,
  messages: [{ role: "user", content }],
  ...more,
});
const tools = [{ name: weather.name, description: "", input_schema: weather.schema }];

test("a message", async () => {
  const message = await client.messages.create(ask(italy.question));
  assert.deepEqual(message.content.map((block) => block.text), [italy.answer]);
  assert.equal(message.stop_reason, "end_turn");
  assert.equal(message.model, "claude-test");
  assert.ok(message.usage.input_tokens + message.usage.cache_read_input_tokens > 5);
});

test("events of a stream", async () => {
  let text = "";
  for await (const event of await client.messages.create({ ...ask(italy.question), stream: true }))
    if (event.type === "content_block_delta") text += event.delta.text;
  assert.equal(text, italy.answer);
});

test("the stream class puts thinking, signature and text together", async () => {
  const stream = client.messages.stream(ask(sum.question, { thinking: { type: "enabled", budget_tokens: 1024 } }));
  const pieces = { thinking: "", text: "", signature: "" };
  stream.on("thinking", (delta) => (pieces.thinking += delta));
  stream.on("text", (delta) => (pieces.text += delta));
  stream.on("signature", (signature) => (pieces.signature = signature));
  const message = await stream.finalMessage();
  assert.deepEqual([pieces.thinking.trim(), pieces.text], [sum.reasoning, sum.answer]);
  const [thinking, text] = message.content;
  assert.equal(thinking.thinking, pieces.thinking);
  assert.ok(thinking.signature.length > 10);
  assert.equal(thinking.signature, pieces.signature);
  assert.equal(text.text, sum.answer);
  assert.ok(message.usage.output_tokens > 10);
  // What was thought goes back as it came.
  const messages = [
    { role: "user", content: sum.question },
    { role: "assistant", content: message.content },
    { role: "user", content: italy.question },
  ];
  const next = await client.messages.create({ ...ask(""), messages });
  assert.equal(next.content[0].text, italy.answer);
});

test("a tool is called and its result answered, whole and streamed", async () => {
  const whole = await client.messages.create(ask(weather.question, { tools }));
  const inputs = [];
  const stream = client.messages.stream(ask(weather.question, { tools }));
  stream.on("inputJson", (delta, snapshot) => inputs.push(snapshot));
  const streamed = await stream.finalMessage();
  assert.deepEqual(inputs.at(-1), weather.input);
  for (const message of [whole, streamed]) {
    assert.equal(message.stop_reason, "tool_use");
    const [call] = message.content;
    assert.equal(call.name, weather.name);
    assert.deepEqual(call.input, weather.input);
    const messages = [
      { role: "user", content: weather.question },
      { role: "assistant", content: message.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: weather.result }] },
    ];
    const last = await client.messages.create({ ...ask(""), tools, messages });
    assert.equal(last.content[0].text, weather.answer);
    assert.equal(last.stop_reason, "end_turn");
  }
});

test("an answer of a given form", async () => {
  const format = { type: "json_schema", schema: person };
  const message = await client.messages.create(ask("Hello!", { output_config: { format } }));
  assertPerson(JSON.parse(message.content[0].text));
});

test("tokens are counted", async () => {
  const { messages } = ask(italy.question);
  const counted = await client.messages.countTokens({ model, messages, tools });
  const { usage } = await client.messages.create(ask(italy.question, { tools, max_tokens: 1 }));
  assert.equal(
    counted.input_tokens,
    usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
  );
});

test("models", async () => {
  const found = [];
  for await (const one of client.models.list()) found.push(one);
  assert.deepEqual(found.map((one) => [one.id, one.type]), [[model, "model"]]);
  assert.ok(Date.parse(found[0].created_at) > 0);
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve("other"), NotFoundError);
});

test("error classes", async () => {
  await assert.rejects(client.messages.create(ask("x", { temperature: 200 })), (error) => {
    assert.ok(error instanceof BadRequestError);
    assert.equal(error.error.error.type, "invalid_request_error");
    assert.equal(error.error.error.code, "invalid_value");
    assert.match(error.error.error.message, /temperature/);
    assert.equal(error.requestID, error.error.request_id);
    return true;
  });
});

test("an aborted stream ends, and the server goes on", async () => {
  const stream = client.messages.stream(ask("Tell me a story.", { ignore_eos: true, max_tokens: 4000 }));
  let deltas = 0;
  stream.on("text", () => {
    if (++deltas === 3) stream.abort();
  });
  await assert.rejects(stream.finalMessage(), APIUserAbortError);
  const message = await client.messages.create(ask("Spell apple."));
  assert.equal(message.content[0].text, "a-p-p-l-e");
});

test("a busy server is asked again", async () => {
  const busy = new Anthropic({ ...options, baseURL: process.env.FLARE_BUSY_URL });
  const endless = ask("Tell me a story.", { ignore_eos: true, max_tokens: 4000 });
  const running = busy.messages.stream(endless);
  running.done().catch(() => {}); // it will be aborted
  await new Promise((resolve) => running.once("streamEvent", resolve));
  await assert.rejects(busy.messages.create(ask(italy.question)), (error) => {
    assert.ok(error instanceof InternalServerError);
    assert.equal(error.status, 529);
    assert.equal(error.error.error.type, "overloaded_error");
    return true;
  });
  const statuses = [];
  const patient = new Anthropic({
    ...options,
    baseURL: process.env.FLARE_BUSY_URL,
    maxRetries: 5,
    fetch: async (...request) => {
      const response = await fetch(...request);
      statuses.push(response.status);
      if (response.status === 529) running.abort();
      return response;
    },
  });
  const message = await patient.messages.create(ask(italy.question));
  assert.equal(message.content[0].text, italy.answer);
  assert.equal(statuses[0], 529);
  assert.equal(statuses.at(-1), 200);
});
