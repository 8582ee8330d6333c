// LangChain's OpenAI and Anthropic models against `flare run` with the bundled model.
// usage: FLARE_BASE_URL=http://HOST:PORT/v1 node --test langchain_test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { ChatAnthropic } from "@langchain/anthropic";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { assertPerson, base, italy, model, person, weather } from "./nano.mjs";

const common = { model, apiKey: "none", temperature: 0, maxRetries: 0 };
const configuration = { baseURL: base };
const models = {
  "openai chat": new ChatOpenAI({ ...common, configuration, streamUsage: true }),
  "openai responses": new ChatOpenAI({ ...common, configuration, useResponsesApi: true }),
  anthropic: new ChatAnthropic({ ...common, maxTokens: 300, anthropicApiUrl: base.replace(/\/v1$/, "") }),
};
const tools = [{ type: "function", function: { name: weather.name, description: "", parameters: weather.schema } }];

for (const [name, chat] of Object.entries(models)) {
  test(`${name}: invoke and stream`, async () => {
    const whole = await chat.invoke(italy.question);
    assert.equal(whole.text, italy.answer);
    let all = null;
    for await (const chunk of await chat.stream(italy.question)) all = all ? all.concat(chunk) : chunk;
    assert.equal(all.text, italy.answer);
    assert.equal(all.usage_metadata.output_tokens, whole.usage_metadata.output_tokens);
    assert.equal(all.usage_metadata.input_tokens, whole.usage_metadata.input_tokens);
  });

  test(`${name}: bound tools`, async () => {
    const bound = chat.bindTools(tools);
    const asked = new HumanMessage(weather.question);
    const call = await bound.invoke([asked]);
    assert.deepEqual(call.tool_calls.map((one) => [one.name, one.args]), [[weather.name, weather.input]]);
    let all = null;
    for await (const chunk of await bound.stream([asked])) all = all ? all.concat(chunk) : chunk;
    assert.deepEqual(all.tool_calls.map((one) => [one.name, one.args]), [[weather.name, weather.input]]);
    const result = new ToolMessage({ tool_call_id: call.tool_calls[0].id, content: weather.result });
    const last = await bound.invoke([asked, call, result]);
    assert.equal(last.text, weather.answer);
  });

  test(`${name}: structured output`, async () => {
    const schema = { title: "person", ...person };
    assertPerson(await chat.withStructuredOutput(schema, { name: "person" }).invoke("Hello!"));
  });
}
