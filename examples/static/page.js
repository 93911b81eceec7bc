// Sends requests to the limited routes and shows what becomes of them.

import { drawChart } from "./chart.js";
import { limitsOf } from "./fields.js";

const SHOWN_REQUESTS = 8;
const KEPT = 31_000; // ms, a little longer than the chart shows
const HEADERS = ["RateLimit-Policy", "RateLimit", "Retry-After"];

const at = (id) => document.getElementById(id);
const controls = at("controls");
const answered = []; // {time (ms), outcome} of each request, oldest first
const tally = { sent: 0, passed: 0, refused: 0, failed: 0 };
let latestShown = 0;
let retryAt = 0;
let burst = 0;
let trouble = "";

function settings() {
  const given = new FormData(controls);
  return {
    route: given.get("route"),
    user: given.get("user").trim(),
    address: given.get("address").trim(),
    count: Number(given.get("count")),
    rate: Number(given.get("rate")),
  };
}

function headersFor({ user, address }) {
  return { ...(user && { "X-User": user }), ...(address && { "X-Forwarded-For": address }) };
}

function outcomeOf(response) {
  if (response.ok) return "passed";
  return response.status === 429 ? "refused" : "failed";
}

async function send(asked) {
  const number = ++tally.sent;
  showTally();
  try {
    const response = await fetch(asked.route, { headers: headersFor(asked), cache: "no-store" });
    count(outcomeOf(response));
    show(number, asked, response);
    await response.text();
  } catch (error) {
    trouble = ` Request ${number} was not answered: ${error.message}.`;
    count("failed");
  }
}

function count(outcome) {
  tally[outcome] += 1;
  answered.push({ time: performance.now(), outcome });
  showTally();
}

function showTally() {
  for (const [name, value] of Object.entries(tally)) at(name).textContent = value;
}

function show(number, asked, response) {
  addToHistory(number, asked, response);
  if (number < latestShown) return; // answers may come out of order
  latestShown = number;
  const line = at("status");
  line.textContent = `Request ${number}: ${response.status} ${response.statusText}`;
  line.className = `answer-line ${outcomeOf(response)}`;
  for (const name of HEADERS) {
    document.querySelector(`[data-header="${name}"]`).textContent = response.headers.get(name) ?? "-";
  }
  showQuotas(limitsOf(response.headers));
  retryAt = performance.now() + 1000 * Number(response.headers.get("Retry-After"));
  summarize();
}

function showQuotas(limits) {
  at("quotas").replaceChildren(
    ...limits.map(({ name, quota, remaining }) => {
      const label = document.createElement("label");
      const meter = document.createElement("meter");
      label.textContent = `${name}: ${remaining} of ${quota} left`;
      Object.assign(meter, { max: quota || 1, low: quota / 4, optimum: quota, value: remaining });
      label.append(meter);
      return label;
    }),
  );
}

function addToHistory(number, { route, user, address }, response) {
  const row = document.createElement("tr");
  const who = [user, address].filter(Boolean).join(", ") || "-";
  const wait = response.headers.get("Retry-After");
  for (const text of [number, route, who, `${response.status} ${outcomeOf(response)}`, wait ? `${wait} s` : "-"]) {
    row.insertCell().textContent = text;
  }
  at("history").prepend(row);
  at("history").rows[SHOWN_REQUESTS]?.remove();
}

function summarize() {
  const wait = Math.ceil((retryAt - performance.now()) / 1000);
  const after = wait > 0 ? ` The latest was refused; it would pass in ${wait} s.` : "";
  const text = `${tally.sent} sent: ${tally.passed} passed, ${tally.refused} refused.${after}${trouble}`;
  // Only what changes is read out.
  if (at("summary").textContent !== text) at("summary").textContent = text;
}

function start() {
  const asked = settings();
  const began = performance.now();
  let sent = 0;
  const tick = () => {
    const due = Math.min(asked.count, 1 + Math.floor(((performance.now() - began) / 1000) * asked.rate));
    for (; sent < due; sent += 1) send(asked);
    if (sent === asked.count) stop();
  };
  stop();
  at("stop").disabled = false;
  burst = setInterval(tick, 20);
  tick();
}

function stop() {
  clearInterval(burst);
  at("stop").disabled = true;
}

function showCommand() {
  const asked = settings();
  const headers = Object.entries(headersFor(asked)).map(([name, value]) => ` -H '${name}: ${value}'`);
  at("curl").textContent = `curl -i${headers.join("")} ${location.origin}${asked.route}`;
}

function refresh() {
  if (tally.sent === 0) return;
  while (answered[0]?.time < performance.now() - KEPT) answered.shift();
  drawChart(at("chart"), answered, performance.now());
  at("chart").setAttribute("aria-label", `Bars over time: ${tally.passed} passed, ${tally.refused} refused.`);
  summarize();
}

controls.addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
controls.addEventListener("input", showCommand);
at("one").addEventListener("click", () => send(settings()));
at("stop").addEventListener("click", stop);
addEventListener("resize", () => drawChart(at("chart"), answered, performance.now()));
setInterval(refresh, 100);
drawChart(at("chart"), answered, performance.now());
showCommand();
