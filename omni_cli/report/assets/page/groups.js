// Failures and notes by what they have in common.

function showGroups() {
  const names = { failed: "failure", damaged: "file", note: "note" };
  $("group-count").textContent = groups.length ? `(${groups.length})` : "";
  if (!groups.length) $("group-list").replaceChildren(make("p", { class: "empty" }, "No failure, no missing file, no note."));
  else $("group-list").replaceChildren(...groups.slice(0, MAX_GROUPS).map((group, at) => {
    const ids = group.outputs.slice(0, 40).map((index) => make("button", { type: "button", onclick: () => openDetail(outputs[index], group.outputs.map((each) => outputs[each])) }, foreign(outputs[index].id)));
    const all = make("button", { type: "button", onclick: () => { state.group = at; state.page = 0; show("gallery"); } }, `Show ${plural(group.outputs.length, "output")} in the gallery`);
    return make("details", { open: at < 3 }, make("summary", {}, make("b", { class: group.kind === "note" ? "warn" : "bad" }, plural(group.outputs.length, names[group.kind])), ": ", foreign(group.text.slice(0, 600))),
      make("div", {}, make("div", { class: "buttons" }, all), make("div", { class: "ids" }, ...ids)));
  }), ...(groups.length > MAX_GROUPS ? [make("p", { class: "empty" }, `And ${number.format(groups.length - MAX_GROUPS)} more kinds: filter the gallery by status to see all outputs.`)] : []));
}
