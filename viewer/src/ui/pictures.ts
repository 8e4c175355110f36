// Saves what is in view as a file.
import { canvasOf, download, svgOf } from "../draw/export";
import type { Scene } from "../draw/scene";

export function savePicture(scene: Scene, kind: "svg" | "png"): void {
  const { title } = scene.recording.index;
  // The pointer is no part of the picture.
  const still = { ...scene, marks: { ...scene.marks, cursor: undefined, hover: undefined } };
  const name = `${title.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "kasuri"}.${kind}`;
  if (kind === "svg") download(name, new Blob([svgOf(still, title)], { type: "image/svg+xml" }));
  else canvasOf(still, title).toBlob((blob) => blob && download(name, blob), "image/png");
}
