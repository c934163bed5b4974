// Pictures, clips and sound.

function standIn(output) {
  const words = { failed: "failed", cancelled: "cancelled", damaged: "file missing or changed" };
  const kinds = { sound: "♪ sound", data: "array file", "": "no file" };
  return make("span", { class: "stand-in" }, words[output.status] ?? kinds[output.kind] ?? "no thumbnail");
}

function thumbnail(output) {
  const frame = make("span", { class: "frame" });
  if (output.thumb) {
    const tiny = Math.max(output.width, output.height) <= 128 ? "tiny" : "";
    frame.append(make("img", { loading: "lazy", decoding: "async", alt: "", class: tiny, src: `${data.thumbs}/${output.thumb}` }));
  } else {
    frame.append(standIn(output));
  }
  const badge = { clip: "▶", animation: "▶", frames: "▶", sound: "♪" }[output.kind];
  if (badge && output.url) frame.append(make("span", { class: "badge" }, output.fps ? `${badge} ${(output.frames / output.fps).toFixed(1)} s` : badge));
  if (output.url && ["clip", "animation", "frames"].includes(output.kind)) playOnHover(frame, output);
  return frame;
}

// A clip plays while its card is pointed at or focused: a video element, the animation itself, or its frames in turn.
function playOnHover(frame, output) {
  let moving = null, timer = 0;
  const still = frame.querySelector("img, .stand-in");
  const start = () => {
    if (moving) return;
    if (output.kind === "clip") {
      moving = make("video", { src: output.url, muted: true, loop: true, playsInline: true, autoplay: true });
      moving.addEventListener("error", stop);
    } else {
      moving = make("img", { src: source(output), alt: "", class: still?.className ?? "" });
      let shown = 0;
      if (output.kind === "frames") {
        timer = setInterval(() => {
          shown = (shown + 1) % output.frames;
          moving.src = `${output.url}/${String(shown).padStart(6, "0")}.png`;
        }, 1000 / Math.min(60, Math.max(1, output.fps || 8)));
      }
    }
    still.replaceWith(moving);
  };
  const stop = () => {
    clearInterval(timer);
    moving?.replaceWith(still);
    moving = null;
  };
  queueMicrotask(() => {
    const card = frame.closest("button");
    for (const name of ["pointerenter", "focus"]) card?.addEventListener(name, start);
    for (const name of ["pointerleave", "blur"]) card?.addEventListener(name, stop);
  });
}

function media(output, controls = true) {
  const label = `${output.id}: ${output.prompt}`.slice(0, 300);
  if (output.url && output.kind === "clip") {
    const player = make("video", { controls, loop: true, muted: !controls, playsInline: true, "aria-label": label });
    if (output.thumb) player.poster = `${data.thumbs}/${output.thumb}`;
    player.addEventListener("error", () => {
      const first = output.thumb ? [make("img", { src: `${data.thumbs}/${output.thumb}`, alt: label })] : [];
      player.replaceWith(...first, make("p", { class: "summary" }, "This browser does not play the file; this is its first frame."));
    }, { once: true });
    player.src = output.url;
    return player;
  }
  if (output.url && output.kind === "sound") return make("audio", { src: output.url, controls: true, "aria-label": label });
  if (output.url && ["picture", "animation", "frames"].includes(output.kind)) {
    const picture = make("img", { src: source(output), alt: label, class: Math.max(output.width, output.height) <= 256 ? "tiny" : "" });
    if (output.thumb) picture.addEventListener("error", () => { picture.src = `${data.thumbs}/${output.thumb}`; }, { once: true });
    return picture;
  }
  if (output.thumb) return make("img", { src: `${data.thumbs}/${output.thumb}`, alt: label });
  return standIn(output);
}
