// Pictures on their way into a message: pasted, dropped or chosen, as data URLs that the server takes.
import {$, h, icon} from "./dom.js";

const TAKEN = ["image/png", "image/jpeg", "image/webp"];
const MAX_BYTES = 8 * 1024 * 1024;
const MAX_SIDE = 2048;
export const MAX_IMAGES = 16;

const readAsUrl = blob => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(blob);
});

// What the browser can show, as something that the server can read and that is not needlessly large.
async function urlOf(file) {
  if (TAKEN.includes(file.type) && file.size <= MAX_BYTES) return readAsUrl(file);
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, MAX_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = h("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return canvas.toDataURL(file.type === "image/jpeg" ? "image/jpeg" : "image/png", 0.9);
}

// The row of pictures above the message box.
export class Images {
  constructor({changed, failed}) {
    this.urls = [];
    this.changed = changed;
    this.failed = failed;
  }
  async add(files) {
    for (const file of files) {
      if (this.urls.length >= MAX_IMAGES) {
        this.failed(`A message takes ${MAX_IMAGES} images at most.`);
        break;
      }
      try {
        if (!file.type.startsWith("image/")) throw new Error("not an image");
        this.urls.push(await urlOf(file));
      } catch {
        this.failed(`“${file.name || "This file"}” is no image that this browser can read.`);
      }
    }
    this.show();
  }
  take() {
    const {urls} = this;
    this.urls = [];
    this.show();
    return urls;
  }
  put(urls) {
    this.urls = [...urls];
    this.show();
  }
  show() {
    const row = $("#images");
    row.hidden = !this.urls.length;
    row.replaceChildren(...this.urls.map((url, i) => h("li", {}, h("img", {src: url, alt: `Image ${i + 1}`}),
      h("button", {type: "button", class: "icon", "aria-label": `Remove image ${i + 1}`, onclick: () => this.drop(i)}, icon("close")))));
    this.changed();
  }
  drop(i) {
    this.urls.splice(i, 1);
    this.show();
    ($(`#images li:nth-child(${Math.min(i + 1, this.urls.length)}) button`) ?? $("#prompt")).focus();
  }
}

export const imagesOf = transfer => [...(transfer?.files ?? [])].filter(file => file.type.startsWith("image/"));
