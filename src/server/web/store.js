// Conversations in this browser: heads for the list, bodies for what was said, both in IndexedDB.

const NAME = "flare";
export const LIMITS = {conversations: 2000, bytes: 256 * 1024 * 1024, one: 64 * 1024 * 1024};

// The browser's place, or ours in it, is used up.
export class FullError extends Error {}

let opened;
function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("heads", {keyPath: "id"});
      request.result.createObjectStore("bodies", {keyPath: "id"});
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("another tab holds the database"));
  });
  opened.catch(() => { opened = undefined; });
  return opened;
}

// Runs `work` in one transaction; what it returns is the result once everything is written.
async function transact(mode, work) {
  const db = await open();
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(["heads", "bodies"], mode);
    let result;
    transaction.oncomplete = () => resolve(result instanceof IDBRequest ? result.result : result);
    const fail = error => reject(error?.name === "QuotaExceededError" ? new FullError("The browser gives this page no more space.") : error);
    transaction.onabort = () => fail(transaction.error);
    try {
      result = work(transaction.objectStore("heads"), transaction.objectStore("bodies"));
    } catch (error) {
      fail(error);
    }
  });
}

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel(NAME) : null;
export const onOtherTab = listener => channel?.addEventListener("message", event => listener(event.data));
const tell = id => channel?.postMessage({id});

export async function heads() {
  const all = await transact("readonly", store => store.getAll());
  return all.sort((a, b) => b.updated - a.updated);
}

export const load = id => transact("readonly", (_, bodies) => bodies.get(id));

// UTF-16 of JSON is near enough to what a browser takes.
export const sizeOf = conversation => JSON.stringify(conversation).length;

export async function usage() {
  const all = await heads();
  return {count: all.length, bytes: all.reduce((sum, head) => sum + head.bytes, 0)};
}

// Throws FullError, and keeps what was stored before.
export async function save(conversation) {
  const bytes = sizeOf(conversation);
  const others = (await heads()).filter(head => head.id !== conversation.id);
  if (bytes > LIMITS.one)
    throw new FullError(`This conversation takes ${mib(bytes)} and one may take ${mib(LIMITS.one)}.`);
  if (others.length >= LIMITS.conversations)
    throw new FullError(`${LIMITS.conversations} conversations are stored, which is the limit.`);
  const total = others.reduce((sum, head) => sum + head.bytes, bytes);
  if (total > LIMITS.bytes) throw new FullError(`Conversations would take ${mib(total)}; the limit is ${mib(LIMITS.bytes)}.`);
  const {id, title, updated} = conversation;
  await transact("readwrite", (head, body) => {
    body.put(conversation);
    head.put({id, title, updated, bytes});
  });
  tell(id);
}

export async function remove(id) {
  await transact("readwrite", (head, body) => {
    head.delete(id);
    body.delete(id);
  });
  tell(id);
}

export async function removeAll() {
  await transact("readwrite", (head, body) => {
    head.clear();
    body.clear();
  });
  tell(null);
}

export const mib = bytes => (bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`);
