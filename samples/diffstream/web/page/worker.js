// The player in a worker: the first message says where the library is and brings the canvases.
"use strict";
importScripts("cusight.js", "player.js");

let player = null;
const early = [];

onmessage = async ({data}) => {
  if (data.kind !== "start") {
    if (player)
      player.receive(data);
    else
      early.push(data);
    return;
  }
  try {
    const decoder = await Decoder.create(data.source);
    player = new Player(decoder, data.canvases, data.settings, message => postMessage(message));
    early.splice(0).forEach(message => player.receive(message));
  } catch (error) {
    postMessage({kind: "failed", text: error.message, final: true});
  }
};
