// Draws what passed above a line and what was refused below it, over the last 30 seconds.

const SECONDS = 30;
const SLOT = 500; // ms that one bar stands for
const SLOTS = (SECONDS * 1000) / SLOT;
const MARGIN = { left: 34, right: 8, top: 8, bottom: 20 };

/** Draws the requests ({time, outcome}, times in ms) as of `now`. */
export function drawChart(canvas, requests, now) {
  const pen = prepared(canvas);
  const area = areaOf(canvas);
  const bars = barsOf(requests, now);
  const most = Math.max(4, ...bars.map((bar) => Math.max(bar.passed, bar.refused)));
  const colour = (name) => getComputedStyle(canvas).getPropertyValue(name);
  drawAxes(pen, area, most, colour);
  drawBars(pen, area, most, bars, colour);
}

function prepared(canvas) {
  const scale = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * scale;
  canvas.height = canvas.clientHeight * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  return pen;
}

function areaOf({ clientWidth, clientHeight }) {
  const { left, right, top, bottom } = MARGIN;
  const height = clientHeight - top - bottom;
  return { left, width: clientWidth - left - right, top, height, middle: top + height / 2 };
}

// Slots are whole multiples since the page was loaded, so that a bar does not change while it moves left.
function barsOf(requests, now) {
  const newest = Math.floor(now / SLOT);
  const bars = Array.from({ length: SLOTS }, () => ({ passed: 0, refused: 0, failed: 0 }));
  for (let i = requests.length - 1; i >= 0; i -= 1) {
    const slot = SLOTS - 1 - (newest - Math.floor(requests[i].time / SLOT));
    if (slot < 0) break;
    bars[slot][requests[i].outcome] += 1;
  }
  return bars;
}

function drawAxes(pen, { left, width, top, height, middle }, most, colour) {
  pen.strokeStyle = colour("--line");
  pen.fillStyle = colour("--quiet");
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const [value, y] of [[most, top], [0, middle], [most, top + height]]) {
    line(pen, left, y, left + width, y);
    pen.fillText(value, left - 6, y);
  }
  pen.textBaseline = "alphabetic";
  for (let ago = SECONDS; ago >= 0; ago -= 10) {
    pen.textAlign = ago === 0 ? "right" : ago === SECONDS ? "left" : "center";
    pen.fillText(ago === 0 ? "now" : `${ago} s ago`, left + width * (1 - ago / SECONDS), top + height + 16);
  }
  label(pen, "passed", left + 4, top + 14, colour("--passed"));
  label(pen, "refused", left + 4, top + height - 6, colour("--refused"));
}

function drawBars(pen, { left, width, height, middle }, most, bars, colour) {
  const step = width / SLOTS;
  const unit = height / 2 / most;
  bars.forEach(({ passed, refused }, slot) => {
    const x = left + slot * step;
    pen.fillStyle = colour("--passed");
    pen.fillRect(x, middle - passed * unit, Math.max(1, step - 1), passed * unit);
    pen.fillStyle = colour("--refused");
    pen.fillRect(x, middle, Math.max(1, step - 1), refused * unit);
  });
}

function line(pen, fromX, fromY, toX, toY) {
  pen.beginPath();
  pen.moveTo(fromX, Math.round(fromY) + 0.5);
  pen.lineTo(toX, Math.round(toY) + 0.5);
  pen.stroke();
}

function label(pen, text, x, y, colour) {
  pen.textAlign = "left";
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}
