// Camera, video or the example to boxes and heatmap.
import {attempt, count, element, example, onFile, pixels, play, say, show} from "./tools.js";

export function start(cu) {
  const video = Object.assign(document.createElement("video"), {muted: true, loop: true, playsInline: true}), heatmap = new cu.Mat();
  let detector = null, shape = "", previous = null, source = "the example", said = 0;

  function step(time) {
    if (source !== "the example" && video.readyState < 2)
      return;
    const image = pixels(source === "the example" ? example(time / 1000) : video, 640), begin = performance.now();
    if (shape !== `${image.width} x ${image.height}`) {
      detector?.dispose();
      detector = new cu.MotionDetector(1, image.height, image.width, cu.constants.CUS_8UC3, {min_area: 100, merge: 1, shift: 5});
      [shape, previous] = [`${image.width} x ${image.height}`, null];
    }
    const frame = cu.fromImage(image, 3);
    detector.run([frame], [Math.round(1000 * time)]);
    cu.heatmap(previous ?? frame, frame, null, {dst: heatmap});
    const {boxes, status} = detector.get(0), took = performance.now() - begin;
    previous?.dispose();
    previous = frame;
    show("motion-heatmap", heatmap.imageData());
    const context = show("motion-picture", image);
    context.font = "600 14px system-ui, sans-serif";
    context.lineWidth = 3;
    for (const box of boxes) {
      context.strokeStyle = context.fillStyle = `hsl(${box.track * 67 % 360} 95% 65%)`;
      context.strokeRect(box.x, box.y, box.width, box.height);
      context.fillText(box.track, box.x + 4, Math.max(box.y - 5, 12));
    }
    if (time - said > 500) {
      const state = ["learning the background", `${boxes.length} moving`, "everything changed", "too much moves"][status.state];
      say("motion-says", `${source}, ${shape}: ${state}, ${count(status.moving)} pixels; ${took.toFixed(1)} ms a picture`);
      said = time;
    }
  }

  async function open(name, set) {
    set();
    await video.play();
    source = name;
  }
  const stop = () => video.srcObject?.getTracks().forEach(track => track.stop());
  onFile(element("video-file"), file => open(file.name, () => {
    stop();
    Object.assign(video, {srcObject: null, src: URL.createObjectURL(file)});
  }));
  element("camera").addEventListener("click", () => attempt("motion", async () => {
    const stream = await navigator.mediaDevices.getUserMedia({video: {width: 640}});
    await open("the camera", () => { video.srcObject = stream; });
  }));
  play(element("motion"), element("motion-pause"), step);
}
