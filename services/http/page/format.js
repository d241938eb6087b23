// Numbers as people read them, as the command line writes them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

// "231.9 MiB"; below 1,024 bytes "12 B".
export function formatBytes(bytes) {
  if (Math.abs(bytes) < 1024) return `${bytes} B`;
  let unit = 1;
  let scale = 1024;
  // 1023.95 and above would become 1024.0 of the smaller unit.
  while (unit + 1 < UNITS.length && Math.abs(bytes) >= 1023.95 * scale) {
    unit += 1;
    scale *= 1024;
  }
  return `${(bytes / scale).toFixed(1)} ${UNITS[unit]}`;
}

// "4,096".
export function formatCount(count) {
  return count.toLocaleString("en-US");
}

// "1 slot", "4 slots".
export function plural(count, one, many = `${one}s`) {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

// "0.8 s", "12 s", "3 min".
export function formatSeconds(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}
