// What the tools share: pictures and files in, pictures and words out.
export const element = id => document.getElementById(id);
export const say = (id, text) => { element(id).textContent = text; };
export const count = number => number.toLocaleString("en");

export function canvasOf(width, height) {
  return Object.assign(document.createElement("canvas"), {width, height});
}

export function show(id, image) {
  const canvas = element(id);
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.putImageData(image, 0, 0);
  return context;
}

// The pixels of a picture or video, with at most `most` columns and rows.
export function pixels(source, most = Infinity) {
  const width = source.videoWidth || source.width, height = source.videoHeight || source.height, scale = Math.min(1, most / Math.max(width, height));
  const context = canvasOf(Math.round(width * scale) || 1, Math.round(height * scale) || 1).getContext("2d", {willReadFrequently: true});
  context.drawImage(source, 0, 0, context.canvas.width, context.canvas.height);
  return context.getImageData(0, 0, context.canvas.width, context.canvas.height);
}

// Does the work, and says in its section what goes wrong.
export async function attempt(section, work) {
  say(`${section}-error`, "");
  try {
    await work();
  } catch (error) {
    say(`${section}-error`, error.message);
  }
}

// Files chosen with an input, or dropped on its section.
export function onFile(input, take) {
  const section = input.closest("section"), files = list => attempt(section.id, async () => {
    for (const file of list)
      await take(file);
  });
  input.addEventListener("change", () => files(input.files));
  for (const [kind, over] of [["dragover", true], ["dragleave", false], ["drop", false]])
    section.addEventListener(kind, event => {
      event.preventDefault();
      section.classList.toggle("over", over);
      if (kind === "drop" && !event.claimed) {
        event.claimed = true;
        files(event.dataTransfer.files);
      }
    });
}

// Calls step(time) for each refresh of the screen while the section is in sight and the button is not pressed.
export function play(section, button, step) {
  let seen = false, paused = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const set = value => {
    paused = value;
    button.setAttribute("aria-pressed", String(paused));
  };
  const next = time => {
    if (seen && !paused && !document.hidden)
      step(time);
    requestAnimationFrame(next);
  };
  button.addEventListener("click", () => set(!paused));
  new IntersectionObserver(entries => { seen = entries.at(-1).isIntersecting; }).observe(section);
  set(paused);
  step(performance.now());
  requestAnimationFrame(next);
}

// An example: discs and bars that move over a pattern, at a time in seconds.
let scene = null;
export function example(seconds) {
  scene ??= canvasOf(480, 320);
  const context = scene.getContext("2d", {willReadFrequently: true}), {width, height} = scene;
  for (let y = 0; y < height; y += 20)
    for (let x = 0; x < width; x += 20) {
      context.fillStyle = `hsl(${210 + (x * 7 + y * 13) % 40} 25% ${38 + (x * 3 + y * 5) % 17}%)`;
      context.fillRect(x, y, 20, 20);
    }
  [["#f4c542", 70, 1.1, 26], ["#ef6f5e", 170, -0.7, 34], ["#e8eef4", 260, 1.7, 18]].forEach(([color, y, speed, radius], i) => {
    context.fillStyle = color;
    context.beginPath();
    context.arc(width / 2 + 190 * Math.sin(speed * seconds + i), y + 22 * Math.cos(2 * seconds + i), radius, 0, 7);
    context.fill();
  });
  return scene;
}
