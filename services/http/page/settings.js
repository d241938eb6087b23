// The dialog of settings. They live as long as the page.

const DEFAULTS = {
  system: "", temperature: null, maxTokens: null, contextPolicy: "roll", tools: null,
};

const numberOrNull = (text) => (text === "" ? null : Number(text));

// Returns the tools of a text, or null for none. It throws an Error that says
// what is wrong.
function toolsOf(text) {
  if (text.trim() === "") return null;
  const tools = JSON.parse(text);
  if (!Array.isArray(tools)) throw new Error("the tools must be an array");
  return tools;
}

export class Settings {
  // `dialog` is the element; `onchange` is called after each change.
  constructor(dialog, onchange) {
    this.values = {...DEFAULTS};
    this.dialog = dialog;
    this.form = dialog.querySelector("form");
    this.error = dialog.querySelector(".error");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.#read()) return;
      dialog.close();
      onchange();
    });
    dialog.querySelector("#settings-cancel").addEventListener("click", () => dialog.close());
  }

  open() {
    const {system, temperature, maxTokens, contextPolicy, tools} = this.values;
    const {elements} = this.form;
    elements.system.value = system;
    elements.temperature.value = temperature ?? "";
    elements.max_tokens.value = maxTokens ?? "";
    elements.context_policy.value = contextPolicy;
    elements.tools.value = tools === null ? "" : JSON.stringify(tools, null, 2);
    this.error.textContent = "";
    this.dialog.showModal();
  }

  // Takes the fields; says what is wrong, and returns false, if something is.
  #read() {
    const {elements} = this.form;
    let tools = null;
    try {
      tools = toolsOf(elements.tools.value);
    } catch (error) {
      this.error.textContent = `Tools: ${error.message}`;
      elements.tools.focus();
      return false;
    }
    this.values = {
      system: elements.system.value.trim(),
      temperature: numberOrNull(elements.temperature.value),
      maxTokens: numberOrNull(elements.max_tokens.value),
      contextPolicy: elements.context_policy.value,
      tools,
    };
    return true;
  }
}
