// Reads the fields of draft-ietf-httpapi-ratelimit-headers: lists of quoted names with parameters.

const ITEM = /"((?:[^"\\]|\\.)*)"((?:\s*;\s*[a-z*][a-z0-9_.*-]*(?:=[^;,]*)?)*)/g;
const PARAMETER = /;\s*([a-z*][a-z0-9_.*-]*)=([^;,]*)/g;

function itemsOf(field) {
  return [...(field ?? "").matchAll(ITEM)].map(([, name, parameters]) => {
    const numbers = [...parameters.matchAll(PARAMETER)].map(([, key, value]) => [key, Number(value)]);
    return { name: name.replace(/\\(.)/g, "$1"), ...Object.fromEntries(numbers) };
  });
}

/** What each limit allows and has left: what RateLimit-Policy and RateLimit say of one name, together. */
export function limitsOf(headers) {
  const left = new Map(itemsOf(headers.get("RateLimit")).map((item) => [item.name, item]));
  return itemsOf(headers.get("RateLimit-Policy")).map(({ name, q }) => ({
    name,
    quota: q,
    remaining: left.get(name)?.r ?? 0,
  }));
}
