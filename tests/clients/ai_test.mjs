// Vercel's AI SDK with three of its providers against `flare run` with the bundled model.
// usage: FLARE_BASE_URL=http://HOST:PORT/v1 node --test ai_test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { assertPerson, base, italy, model, person, sum, weather } from "./nano.mjs";

// Some providers leave the temperature out where they expect reasoning.
const greedily = (url, request) =>
  fetch(url, { ...request, body: JSON.stringify({ ...JSON.parse(request.body), temperature: 0 }) });

const openai = createOpenAI({ baseURL: base, apiKey: "none", fetch: greedily });
const compatible = createOpenAICompatible({
  name: "flare",
  baseURL: base,
  fetch: greedily,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const anthropic = createAnthropic({ baseURL: base, apiKey: "none", fetch: greedily });

const providers = {
  "openai responses": { model: openai(model), thinking: { openai: { reasoningEffort: "low", reasoningSummary: "auto", forceReasoning: true } } },
  "openai chat": { model: openai.chat(model) },
  "openai-compatible": { model: compatible(model), thinking: { flare: { reasoningEffort: "low" } } },
  anthropic: {
    model: anthropic("claude-sonnet-4-5"),
    thinking: { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } } },
  },
};

const cities = [];
const tools = {
  [weather.name]: tool({
    description: "",
    inputSchema: jsonSchema(weather.schema),
    execute: async ({ city }) => {
      cities.push(city);
      return weather.result;
    },
  }),
};

for (const [name, { model, thinking }] of Object.entries(providers)) {
  const request = { model, temperature: 0, maxRetries: 0, maxOutputTokens: 300 };

  test(`${name}: text, whole and streamed`, async () => {
    const whole = await generateText({ ...request, prompt: italy.question });
    assert.equal(whole.text, italy.answer);
    assert.equal(whole.finishReason, "stop");
    const streamed = streamText({ ...request, prompt: italy.question });
    let text = "";
    for await (const piece of streamed.textStream) text += piece;
    assert.equal(text, italy.answer);
    assert.equal(await streamed.finishReason, "stop");
    const usage = await streamed.usage;
    assert.equal(usage.outputTokens, whole.usage.outputTokens);
    assert.ok(usage.inputTokens > 5);
  });

  test(`${name}: cached usage`, async () => {
    const system = `You are ${name}. `.repeat(40);
    const ask = { ...request, system, prompt: italy.question, maxOutputTokens: 3 };
    const first = await generateText(ask);
    const streamed = streamText(ask);
    await streamed.consumeStream();
    const usage = await streamed.usage;
    assert.equal(usage.inputTokens, first.usage.inputTokens);
    assert.ok(usage.inputTokenDetails.cacheReadTokens > 100, JSON.stringify(usage));
  });

  test(`${name}: a tool loop`, async () => {
    cities.length = 0;
    const whole = await generateText({ ...request, tools, stopWhen: stepCountIs(3), prompt: weather.question });
    assert.equal(whole.text, weather.answer);
    assert.equal(whole.steps[0].finishReason, "tool-calls");
    const streamed = streamText({ ...request, tools, stopWhen: stepCountIs(3), prompt: weather.question });
    assert.equal(await streamed.text, weather.answer);
    assert.deepEqual(cities, ["Oslo", "Oslo"]);
  });

  test(`${name}: an object`, async () => {
    const output = Output.object({ schema: jsonSchema(person) });
    const whole = await generateText({ ...request, output, prompt: "Hello!" });
    assertPerson(whole.output);
    const streamed = streamText({ ...request, output, prompt: "Hello!" });
    assertPerson(await streamed.output);
  });

  if (thinking)
    test(`${name}: reasoning parts`, async () => {
      const more = { providerOptions: thinking, prompt: sum.question };
      const whole = await generateText({ ...request, ...more });
      assert.equal(whole.text, sum.answer);
      assert.equal(whole.reasoningText.trim(), sum.reasoning);
      const streamed = streamText({ ...request, ...more });
      assert.equal((await streamed.reasoningText).trim(), sum.reasoning);
      assert.equal(await streamed.text, sum.answer);
    });
}
