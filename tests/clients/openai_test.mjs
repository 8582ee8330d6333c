// The OpenAI SDK against `flare run` with the bundled model.
// usage: FLARE_BASE_URL=http://HOST:PORT/v1 node --test openai_test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { APIUserAbortError, BadRequestError, NotFoundError } from "openai";
import { assertPerson, base, italy, model, person, sum, weather } from "./nano.mjs";

const client = new OpenAI({ baseURL: base, apiKey: "none", maxRetries: 0 });
const ask = (content) => ({ model, messages: [{ role: "user", content }], temperature: 0 });

test("a whole answer", async () => {
  const answer = await client.chat.completions.create(ask("What is the capital of Italy?"));
  assert.equal(answer.object, "chat.completion");
  assert.match(answer.id, /^chatcmpl-/);
  assert.equal(answer.choices[0].message.content, "The capital of Italy is Rome.");
  assert.equal(answer.choices[0].message.role, "assistant");
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test("a streamed answer with usage", async () => {
  const stream = await client.chat.completions.create({
    ...ask("Who are you?"),
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let usage = null;
  const reasons = [];
  for await (const chunk of stream) {
    if (chunk.usage) usage = chunk.usage;
    for (const choice of chunk.choices) {
      text += choice.delta.content ?? "";
      if (choice.finish_reason) reasons.push(choice.finish_reason);
    }
  }
  assert.equal(text, "I am Nano, a very small language model that comes with Flare.");
  assert.deepEqual(reasons, ["stop"]);
  assert.ok(usage.completion_tokens > 5);
});

test("the stream class puts the answer together", async () => {
  const runner = client.chat.completions.stream(ask("Spell apple."));
  const deltas = [];
  runner.on("content", (delta) => deltas.push(delta));
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, "a-p-p-l-e");
  assert.equal(deltas.join(""), "a-p-p-l-e");
  assert.ok(deltas.length > 1);
});

const tools = [{
  type: "function",
  function: {
    name: "get_weather",
    description: "",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
}];

test("a tool is called and its result answered, whole and streamed", async () => {
  const asked = ask("How is the weather in Oslo?").messages;
  const request = { model, temperature: 0, tools };
  const whole = await client.chat.completions.create({ ...request, messages: asked });
  const streamed = await client.chat.completions.stream({ ...request, messages: asked }).finalChatCompletion();
  for (const answer of [whole, streamed]) {
    const { message, finish_reason } = answer.choices[0];
    assert.equal(finish_reason, "tool_calls");
    assert.equal(message.tool_calls.length, 1);
    const [call] = message.tool_calls;
    assert.equal(call.function.name, "get_weather");
    assert.deepEqual(JSON.parse(call.function.arguments), { city: "Oslo" });
    const content = '{"temperature": 3, "sky": "cloudy"}';
    const messages = [...asked, message, { role: "tool", tool_call_id: call.id, content }];
    const last = await client.chat.completions.create({ ...request, messages });
    assert.equal(last.choices[0].message.content, "It is cloudy in Oslo with 3 degrees.");
    assert.equal(last.choices[0].finish_reason, "stop");
  }
});

test("the SDK runs a tool by itself", async () => {
  const cities = [];
  const runner = client.chat.completions.runTools({
    ...ask("How is the weather in Oslo?"),
    stream: true,
    tools: [{
      type: "function",
      function: {
        ...tools[0].function,
        parse: JSON.parse,
        function: ({ city }) => {
          cities.push(city);
          return '{"temperature": 3, "sky": "cloudy"}';
        },
      },
    }],
  });
  assert.equal(await runner.finalContent(), "It is cloudy in Oslo with 3 degrees.");
  assert.deepEqual(cities, ["Oslo"]);
});

test("reasoning comes beside the answer", async () => {
  const stream = await client.chat.completions.create({
    ...ask("What is 12 + 30?"),
    chat_template_kwargs: { enable_thinking: true },
    stream: true,
    stream_options: { include_usage: true },
  });
  const said = { reasoning_content: "", content: "" };
  let usage = null;
  for await (const chunk of stream) {
    if (chunk.usage) usage = chunk.usage;
    for (const { delta } of chunk.choices)
      for (const key of Object.keys(said)) said[key] += delta[key] ?? "";
  }
  assert.deepEqual(said, { reasoning_content: "12 plus 30 makes 42.", content: "12 + 30 = 42" });
  assert.ok(usage.completion_tokens_details.reasoning_tokens > 5);
});

test("models", async () => {
  const names = [];
  for await (const one of client.models.list()) names.push(one.id);
  assert.deepEqual(names, [model]);
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve("other"), NotFoundError);
});

test("error classes", async () => {
  await assert.rejects(client.chat.completions.create({ ...ask("x"), temperature: 200 }), (error) => {
    assert.ok(error instanceof BadRequestError);
    assert.equal(error.code, "invalid_value");
    assert.equal(error.param, "temperature");
    return true;
  });
  await assert.rejects(client.chat.completions.create({ ...ask("x"), model: "other" }), (error) => {
    assert.ok(error instanceof NotFoundError);
    assert.equal(error.code, "model_not_found");
    return true;
  });
});

test("an aborted stream ends, and the server goes on", async () => {
  const stream = await client.chat.completions.create({
    ...ask("Tell me a story."),
    stream: true,
    ignore_eos: true,
    max_tokens: 4000,
  });
  let chunks = 0;
  for await (const chunk of stream) {
    assert.ok(chunk.id);
    if (++chunks === 3) stream.controller.abort();
  }
  assert.ok(chunks >= 3);
  const controller = new AbortController();
  const pending = client.chat.completions.create(
    { ...ask("Tell me a story."), ignore_eos: true, max_tokens: 4000 },
    { signal: controller.signal },
  );
  setImmediate(() => controller.abort());
  await assert.rejects(pending, APIUserAbortError);
  const answer = await client.chat.completions.create(ask("Spell apple."));
  assert.equal(answer.choices[0].message.content, "a-p-p-l-e");
});

test("four requests at once", async () => {
  const questions = {
    "What is the capital of Italy?": "The capital of Italy is Rome.",
    "What is the opposite of hot?": "The opposite of hot is cold.",
    "Write 42 in words.": "forty-two",
    "Which day comes after Monday?": "Tuesday comes after Monday.",
  };
  const answers = await Promise.all(
    Object.keys(questions).map(async (question) => {
      const stream = await client.chat.completions.create({ ...ask(question), stream: true });
      let text = "";
      for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
      return text;
    }),
  );
  assert.deepEqual(answers, Object.values(questions));
});

// ---- Responses ----

const flatTools = [{ type: "function", name: weather.name, parameters: weather.schema, strict: false }];
const respond = (input, more = {}) => client.responses.create({ model, input, temperature: 0, ...more });

test("a response, stored, found, gone on from and deleted", async () => {
  const first = await respond(italy.question);
  assert.equal(first.output_text, italy.answer);
  assert.equal(first.status, "completed");
  assert.equal((await client.responses.retrieve(first.id)).output_text, italy.answer);
  const second = await respond("Spell apple.", { previous_response_id: first.id });
  assert.equal(second.output_text, "a-p-p-l-e");
  const items = [];
  for await (const item of client.responses.inputItems.list(second.id, { order: "asc" })) items.push(item);
  assert.deepEqual(items.map((item) => item.role), ["user", "assistant", "user"]);
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), NotFoundError);
  const counted = await client.responses.inputTokens.count({ model, input: italy.question });
  assert.equal(counted.input_tokens, first.usage.input_tokens);
});

test("a streamed response", async () => {
  let text = "";
  let last = null;
  for await (const event of await respond(italy.question, { stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.equal(text, italy.answer);
  assert.equal(last.type, "response.completed");
  assert.equal(last.response.output[0].content[0].text, italy.answer);
});

test("the stream class of responses", async () => {
  const stream = client.responses.stream({ model, input: sum.question, temperature: 0, reasoning: { effort: "low" } });
  const types = [];
  stream.on("event", (event) => types.push(event.type));
  const final = await stream.finalResponse();
  assert.equal(final.output_text, sum.answer);
  assert.equal(final.output[0].content[0].text, sum.reasoning);
  assert.ok(types.includes("response.reasoning_text.delta"));
  assert.equal(final.usage.output_tokens_details.reasoning_tokens > 5, true);
});

test("a function of a response is called and its output answered", async () => {
  for (const streamed of [false, true]) {
    const request = { tools: flatTools, input: weather.question, model, temperature: 0 };
    const first = streamed
      ? await client.responses.stream(request).finalResponse()
      : await client.responses.create(request);
    const [call] = first.output;
    assert.equal(call.type, "function_call");
    assert.deepEqual(JSON.parse(call.arguments), weather.input);
    const output = { type: "function_call_output", call_id: call.call_id, output: weather.result };
    const last = await respond([output], { previous_response_id: first.id, tools: flatTools });
    assert.equal(last.output_text, weather.answer);
  }
});

test("a parsed response", async () => {
  const format = { type: "json_schema", name: "person", schema: person, strict: true };
  const response = await client.responses.parse({ model, input: "Hello!", temperature: 0, text: { format } });
  assertPerson(JSON.parse(response.output_text));
});

test("text completions", async () => {
  const done = await client.completions.create({ model, prompt: "Hello", max_tokens: 5, temperature: 0 });
  assert.equal(done.object, "text_completion");
  let text = "";
  const stream = await client.completions.create({ model, prompt: "Hello", max_tokens: 5, temperature: 0, stream: true });
  for await (const chunk of stream) text += chunk.choices[0]?.text ?? "";
  assert.equal(text, done.choices[0].text);
});

test("a parsed chat answer", async () => {
  const answer = await client.chat.completions.parse({
    ...ask("Hello!"),
    response_format: { type: "json_schema", json_schema: { name: "person", schema: person, strict: true } },
  });
  assertPerson(answer.choices[0].message.parsed ?? JSON.parse(answer.choices[0].message.content));
});
