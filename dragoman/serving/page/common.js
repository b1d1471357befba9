// What the parts of the page share. All texts are set as text, never as HTML.

export const at = (id) => document.getElementById(id);

/** What the server answers to a body of JSON, or to a form. */
export async function ask(path, body, signal) {
  const isForm = body instanceof FormData;
  const headers = isForm ? {} : { "Content-Type": "application/json" };
  if (at("key").value) headers.Authorization = `Bearer ${at("key").value}`;
  return contentOf(await fetch(path, { method: "POST", headers, body: isForm ? body : JSON.stringify(body), signal }));
}

/** What the server answers at a path beside that of the page. */
export async function get(path) {
  return contentOf(await fetch(path));
}

/** The content of an answer; that of a proxy may be a page of its own, and no JSON. */
async function contentOf(answer) {
  const told = await answer.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return null;
  });
  if (!answer.ok || told === null) throw new Error(told?.error ?? `The server answered ${answer.status}, but not as it should.`);
  return told;
}

export function say(message, isError = false) {
  at("status").textContent = message;
  at("status").classList.toggle("error", isError);
}

/** A list of buttons, each with its text, a note, and what a click does. */
export function listButtons(list, entries) {
  list.replaceChildren(
    ...entries.map(({ text, note, act }) => {
      const [item, button] = [document.createElement("li"), document.createElement("button")];
      button.type = "button";
      button.dir = "auto";
      button.textContent = text;
      button.addEventListener("click", act);
      item.append(button);
      if (note) {
        const small = document.createElement("small");
        small.dir = "auto";
        small.textContent = note;
        item.append(" ", small);
      }
      return item;
    }),
  );
}
