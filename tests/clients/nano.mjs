// What the bundled model is asked, and what it answers for certain.
import assert from "node:assert/strict";

export const base = process.env.FLARE_BASE_URL;
export const model = "nano";

export const italy = { question: "What is the capital of Italy?", answer: "The capital of Italy is Rome." };
export const sum = { question: "What is 12 + 30?", reasoning: "12 plus 30 makes 42.", answer: "12 + 30 = 42" };
export const weather = {
  question: "How is the weather in Oslo?",
  name: "get_weather",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  input: { city: "Oslo" },
  result: '{"temperature": 3, "sky": "cloudy"}',
  answer: "It is cloudy in Oslo with 3 degrees.",
};
export const person = {
  type: "object",
  additionalProperties: false,
  required: ["name", "age"],
  properties: { name: { type: "string" }, age: { type: "integer" } },
};

export function assertPerson(value) {
  assert.deepEqual(Object.keys(value).sort(), ["age", "name"]);
  assert.equal(typeof value.name, "string");
  assert.ok(Number.isInteger(value.age));
}
