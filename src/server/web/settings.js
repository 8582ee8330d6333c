// The settings dialog: what the model offers comes from /props, what is chosen belongs to the conversation.
import {$, h} from "./dom.js";

const SAMPLING = [
  // name, label, least, most, step; S8 of the serving specification
  ["temperature", "Temperature", 0, 100, "any"],
  ["top_p", "Top p", 0, 1, "any"],
  ["top_k", "Top k", -1, 1000000, 1],
  ["min_p", "Min p", 0, 1, "any"],
  ["repetition_penalty", "Repetition penalty", 0.01, 10, "any"],
  ["presence_penalty", "Presence penalty", -2, 2, "any"],
  ["frequency_penalty", "Frequency penalty", -2, 2, "any"],
  ["max_tokens", "Most tokens", 1, 100000000, 1],
  ["seed", "Seed", -9007199254740991, 9007199254740991, 1],
];
const UNSET = {max_tokens: "rest of the context", seed: "random"};

// [value, label] of the reasoning choices, [] for a model without reasoning.
export function reasoningChoices(reasoning) {
  if (!reasoning) return [];
  const levels = reasoning.levels ?? [];
  const usual = reasoning.default === true ? " (on)" : reasoning.default === false ? " (off)" : "";
  const choices = [["", `Reasoning: default${levels.length ? "" : usual}`]];
  if (reasoning.switchable) choices.push(["off", "Reasoning: off"]);
  if (reasoning.switchable && !levels.length) choices.push(["on", "Reasoning: on"]);
  for (const level of levels) if (level !== "none") choices.push([level, `Reasoning: ${level}`]);
  return choices.length > 1 ? choices : [];
}

// Null, or what is wrong with the text of the tools.
export function toolsError(text) {
  if (!text.trim()) return null;
  try {
    const tools = JSON.parse(text);
    if (!Array.isArray(tools)) return "A JSON array is expected: [{\"type\": \"function\", …}].";
    return tools.every(tool => tool?.function?.name) ? null : "Every tool needs \"function\": {\"name\": …}.";
  } catch (error) {
    return `This is no JSON: ${error.message}.`;
  }
}

// `get` returns the settings of the shown conversation; `changed` runs after each change.
export class Settings {
  constructor({get, changed, opened, page}) {
    Object.assign(this, {get, changed, opened, page});
    this.dialog = $("#settings");
    this.fields = new Map();
    $("#system").addEventListener("input", event => { this.get().system = event.target.value; this.changed(); });
    $("#tools").addEventListener("input", event => this.readTools(event.target));
    $("#reset-sampling").addEventListener("click", () => { this.get().sampling = {}; this.changed(); this.show(); });
    for (const name of ["theme", "enter"]) $("#" + name).addEventListener("change", event => page.set(name, event.target.value));
    $("form", this.dialog).addEventListener("submit", event => { event.preventDefault(); this.dialog.close(); });
    this.dialog.addEventListener("click", event => { if (event.target === this.dialog) this.dialog.close(); });
    for (const row of SAMPLING) this.addField(row);
  }

  addField([name, label, min, max, step]) {
    const input = h("input", {type: "number", id: "s-" + name, min, max, step, inputmode: step === 1 ? "numeric" : "decimal", "aria-describedby": "e-" + name});
    const error = h("span", {id: "e-" + name, class: "error", hidden: true});
    const box = h("div", {class: "field"}, h("label", {for: "s-" + name}, label), input, error);
    input.addEventListener("input", () => {
      const good = input.validity.valid;
      error.hidden = good;
      error.textContent = good ? "" : input.validity.badInput ? "a number" : `${min} to ${max}` + (step === 1 ? ", whole" : "");
      input.setAttribute("aria-invalid", String(!good));
      if (!good || input.value === "") delete this.get().sampling[name];
      else this.get().sampling[name] = input.valueAsNumber;
      this.changed();
    });
    this.fields.set(name, {input, error, box});
    $("#sampling").append(box);
  }

  readTools(box) {
    const wrong = toolsError(box.value);
    $("#tools-error").hidden = !wrong;
    $("#tools-error").textContent = wrong ?? "";
    box.setAttribute("aria-invalid", String(Boolean(wrong)));
    if (wrong) return;
    this.get().tools = box.value;
    this.changed();
  }

  // The model's own values become the placeholders.
  setProps(props) {
    this.props = props;
    const params = props?.default_generation_settings?.params ?? {};
    for (const [name, {input, box}] of this.fields) {
      box.hidden = Boolean(props) && !(name in params) && !(name in UNSET);
      input.placeholder = params[name] ?? UNSET[name] ?? "";
    }
    const told = [];
    if (props) {
      told.push(["Build", props.build_info], ["Context", `${props.default_generation_settings?.n_ctx?.toLocaleString("en") ?? "?"} tokens`],
        ["At once", `${props.total_slots ?? "?"} requests`], ["Images", props.modalities?.vision ? "yes" : "no"],
        ["Reasoning", props.reasoning?.format ?? "no"], ["Tool calls", props.tool_format ?? "no"]);
    }
    $("#server").replaceChildren(...told.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  }

  show() {
    const settings = this.get();
    $("#system").value = settings.system;
    $("#tools").value = settings.tools;
    this.readTools($("#tools"));
    for (const [name, {input, error}] of this.fields) {
      input.value = settings.sampling[name] ?? "";
      error.hidden = true;
      input.removeAttribute("aria-invalid");
    }
    for (const name of ["theme", "enter"]) $("#" + name).value = this.page.get(name);
  }

  open(focus) {
    this.show();
    this.opened();
    this.dialog.showModal();
    if (focus) $(focus).focus();
  }
}
