// One output in full, and the dialogs.

let detail = null;

function openDetail(output, list) {
  detail = { output, list };
  const title = $("detail-title");
  title.replaceChildren(foreign(output.id));
  $("detail-media").replaceChildren(media(output));
  $("detail-facts").replaceChildren(...facts(output));
  steps($("detail"), list.indexOf(output), list.length, (to) => openDetail(list[to], list));
  if (!$("detail").open) $("detail").showModal();
  keepHash();
}

function facts(output) {
  const parts = [];
  const section = (title, ...content) => parts.push(make("h3", {}, title), ...content);
  if (output.fault) section(output.status === "failed" ? "Failure" : "File", make("div", { class: "text bad" }, ...(output.status === "failed" ? [] : [foreign(output.path), ": "]), foreign(output.fault)));
  section("Prompt", make("div", { class: "text" }, foreign(output.prompt || "(no prompt)")));
  const request = output.row ? JSON.parse(output.row) : {};
  if (request.negative_prompt) section("Negative prompt", make("div", { class: "text" }, foreign(request.negative_prompt)));
  const table = make("table", {}, make("tbody"));
  const fact = (name, value, title = "") => {
    if (value !== "" && value !== undefined && value !== null) {
      table.tBodies[0].append(make("tr", {}, make("th", { scope: "row" }, foreign(name)), make("td", { title }, foreign(String(value)))));
    }
  };
  fact("seed", output.seed);
  for (const [name, value] of Object.entries(request)) {
    if (!["id", "prompt", "negative_prompt", "seed"].includes(name)) fact(name, typeof value === "object" ? JSON.stringify(value) : value);
  }
  fact("size", describe(output));
  fact("model", data.folders[output.folder].models[output.model]);
  if (data.folders.length > 1) fact("folder", data.folders[output.folder].name);
  fact("file", output.path && `${output.path}, ${bytes(output.bytes)}`);
  ["forward", "D2H", "encode", "write"].forEach((name, at) => { if (output.spans[2 * at + 1] !== undefined) fact(name, seconds(output.spans[2 * at + 1])); });
  if (!output.spans.length && output.forward) fact("forward", seconds(output.forward));
  if (output.attempts > 1) fact("attempts", output.attempts);
  section("Parameters", table);
  const row = make("textarea", { readOnly: true, rows: 4, value: output.row, "aria-label": "Row of a prompt file (JSONL)" });
  const copy = (label, text, target) => make("button", { type: "button", onclick: () => copyText(text, target, label) }, `Copy ${label}`);
  if (output.row) section("Row of a prompt file", row);
  parts.push(make("div", { class: "buttons" }, ...(output.row ? [copy("row", output.row, row)] : []), copy("prompt", output.prompt), ...(output.seed ? [copy("seed", output.seed)] : []),
    ...(output.url ? [make("a", { href: source(output), target: "_blank", rel: "noopener" }, "Open file")] : [])));
  if (!output.row) section("Row of a prompt file", "The row is too long for this page; it is in manifest.jsonl.");
  if (output.notes.length) section("Notes", make("ul", {}, ...output.notes.map((note) => make("li", { class: "text" }, foreign(note)))));
  return parts;
}

async function copyText(text, target, label) {
  try {
    await navigator.clipboard.writeText(text);
    announce(`${label} copied`);
  } catch {  // not allowed here: select it for Ctrl-C
    const area = target ?? $("detail-facts").appendChild(make("textarea", { readOnly: true, value: text, "aria-label": label }));
    area.focus();
    area.select();
    announce(document.execCommand("copy") ? `${label} copied` : `press Ctrl-C to copy the ${label}`);
  }
}

function steps(dialog, at, count, go) {
  for (const button of dialog.querySelectorAll("[data-step]")) {
    const to = at + Number(button.dataset.step);
    button.disabled = to < 0 || to >= count;
    button.onclick = () => go(to);
  }
}

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    dialog.querySelectorAll("video, audio").forEach((player) => player.pause());
    detail = null;
    keepHash();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.target.matches("input, textarea, video, audio")) return;
    const direction = { ArrowLeft: "-1", ArrowRight: "1" }[event.key];
    if (direction) dialog.querySelector(`[data-step="${direction}"]`).click();
  });
}
