// Makes elements. Text goes in as text, never as HTML.

// Returns a new element. `attributes` whose name begins with "on" are handlers
// of events; those that are null, undefined or false are left out. `children`
// are elements or texts.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      node.addEventListener(name.slice(2), value);
    } else {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Sets the text of an element, unless it is that already: readers of the screen
// are told of changes.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
