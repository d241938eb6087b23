// The token that a server with --tokens wants of every request. The tab keeps it
// until it is closed, and nobody else.

const KEY = "plimsoll-token";
// What api.js says on the document when a request was refused for its token.
export const REFUSED = "plimsoll-token-refused";

export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

// The headers that show the token, if there is one.
export function authorization() {
  return token() === "" ? {} : {Authorization: `Bearer ${token()}`};
}

// The dialog that asks for a token once the server wants one.
export class TokenDialog {
  // `dialog` is the element, `forget` the button that drops the token, which is
  // shown while there is one. `onchange` is called after each change.
  constructor(dialog, forget, onchange) {
    this.dialog = dialog;
    this.forget = forget;
    this.onchange = onchange;
    const form = dialog.querySelector("form");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#keep(form.elements.token.value.trim());
      form.reset();
      dialog.close();
      onchange();
    });
    forget.addEventListener("click", () => {
      this.#keep("");
      onchange();
    });
    document.addEventListener(REFUSED, () => this.#ask());
    this.#keep(token());
  }

  #keep(text) {
    if (text === "") {
      sessionStorage.removeItem(KEY);
    } else {
      sessionStorage.setItem(KEY, text);
    }
    this.forget.hidden = text === "";
  }

  #ask() {
    if (this.dialog.open) return;
    this.dialog.querySelector(".error").textContent =
      token() === "" ? "" : "This token is wrong, or its time is over.";
    this.dialog.showModal();
  }
}
