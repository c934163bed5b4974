// The gallery: cards, filters, pages.

function card(output, list) {
  const status = { failed: "failed", damaged: "file missing or changed", cancelled: "cancelled" }[output.status];
  const line = [status && make("span", { class: output.status === "cancelled" ? "warn" : "bad" }, status), output.notes.length && make("span", { class: "warn" }, plural(output.notes.length, "note"))].filter(Boolean);
  const caption = make("span", { class: "caption" }, foreign(output.prompt.slice(0, 300) || "(no prompt)", "prompt"), foreign(output.id, "name"));
  line.forEach((part) => caption.append(part, " "));
  return make("li", {}, make("button", { type: "button", class: "card", onclick: () => openDetail(output, list) }, thumbnail(output), caption));
}

const orders = {
  "": null,
  "-": (a, b) => b.folder - a.folder || startOf(b) - startOf(a) || b.index - a.index,
  id: (a, b) => a.id.localeCompare(b.id, undefined, { numeric: true }),
  prompt: (a, b) => a.prompt.localeCompare(b.prompt),
  forward: (a, b) => b.forward - a.forward,
  bytes: (a, b) => b.bytes - a.bytes,
};
const startOf = (output) => (output.run < 0 ? 0 : data.folders[output.folder].runs[output.run].started + (output.spans[0] ?? 0));

function filtered() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const status = $("status").value, model = $("model").value, folder = $("folder").value;
  const group = state.group < 0 ? null : new Set(groups[state.group].outputs);
  const found = outputs.filter((output, at) =>
    (!group || group.has(at)) && (!folder || output.folder === Number(folder)) &&
    (!status || (status === "notes" ? output.notes.length > 0 : output.status === status)) &&
    (!model || `${output.folder}.${output.model}` === model) && words.every((word) => output.text.includes(word)));
  const order = orders[$("order").value];
  return order ? found.sort(order) : found;
}

function showGallery() {
  const found = filtered();
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  state.page = Math.min(state.page, pages - 1);
  $("cards").replaceChildren(...found.slice(state.page * PAGE, (state.page + 1) * PAGE).map((output) => card(output, found)));
  $("no-cards").hidden = found.length > 0;
  showPager("gallery", found.length, "output", state.page, pages, (page) => { state.page = page; showGallery(); });
  $("group-filter").hidden = state.group < 0;
  if (state.group >= 0) {
    const clear = make("button", { type: "button", onclick: () => { state.group = -1; state.page = 0; showGallery(); } }, "Show all");
    $("group-filter").replaceChildren("Only outputs with: ", foreign(groups[state.group].text.slice(0, 200)), " ", clear);
  }
  announce(plural(found.length, "output"));
  keepHash();
}

function showPager(name, count, noun, page, pages, go) {
  for (const pager of document.querySelectorAll(`[data-pager="${name}"]`)) {
    const step = (label, to, enabled) => make("button", { type: "button", disabled: !enabled, onclick: () => {
      go(to);
      $("main").scrollIntoView();
    } }, label);
    pager.replaceChildren(plural(count, noun), ...(pages > 1 ? [
      step("‹ Previous", page - 1, page > 0), `page ${page + 1} of ${pages}`, step("Next ›", page + 1, page < pages - 1)] : []));
  }
}
