// Elements, and how values are written.

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

// Characters that hide or reorder the text around them are shown by their numbers.
const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2060-\u2069\ufeff]/g,
  (character) => `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
const foreign = (text, kind = "") => make("bdi", { class: kind, dir: "auto" }, visible(text));
const seconds = (value) => (value >= 100 ? `${Math.round(value)} s` : value >= 1 ? `${value.toFixed(2)} s` : `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`);
const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(0)} %`);
const bytes = (count) => {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (count < 1024 || unit === "GiB") return `${unit === "B" ? count : count.toFixed(1)} ${unit}`;
    count /= 1024;
  }
  return "";
};
const plural = (count, one, many = `${one}s`) => `${number.format(count)} ${count === 1 ? one : many}`;
const announce = (text) => { $("announce").textContent = text; };

function source(output) {
  return output.kind === "frames" ? `${output.url}/000000.png` : output.url;
}

function describe(output) {
  const size = output.width ? `${output.width}×${output.height}` : "";
  const length = output.frames > 1 ? `${output.frames} frames${output.fps ? `, ${number.format(output.frames / output.fps)} s` : ""}` : "";
  return [size, length].filter(Boolean).join(", ");
}
