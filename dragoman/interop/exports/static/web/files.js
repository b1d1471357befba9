// Files of the page: read whole, decompressed, and compared with the sums that the export has written.

// The bytes of a file, whose CRC-32 is `sum` if that is known.
export async function read(name, sum) {
  let bytes;
  try {
    // Asks whether the file has changed: one of an earlier export may be in the browser's cache.
    const response = await fetch(new URL(name, import.meta.url), { cache: "no-cache" });
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`.trim());
    bytes = new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    throw new Error(`${name} cannot be read (${error.message})`);
  }
  try {
    bytes = await decompressed(bytes);
  } catch {
    throw new Error(`${name} is damaged`);
  }
  if (sum !== undefined && sum !== crc32(bytes)) throw new Error(`${name} is damaged, or of another export`);
  return bytes;
}

export async function readJson(name, sum) {
  const bytes = await read(name, sum);
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new Error(`${name} is damaged`);
  }
}

// Only what begins as gzip does: some servers have decompressed it already.
async function decompressed(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const TABLE = Int32Array.from({ length: 256 }, (_, value) => {
  for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 && 0xedb88320);
  return value;
});

// As eight hexadecimal digits.
function crc32(bytes) {
  let sum = -1;
  for (const byte of bytes) sum = (sum >>> 8) ^ TABLE[(sum ^ byte) & 255];
  return (~sum >>> 0).toString(16).padStart(8, "0");
}
