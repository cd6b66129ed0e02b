// Walks the pages of a running `grete web` in Chromium: wide, on a phone, dark. Writes a picture of each, and reports what
// axe finds, what is wider than the screen, what the browser refuses or cannot load, and what is loaded from elsewhere.
//
//     node walk.mjs ADDRESS PICTURES CHROMIUM [PAGE...]
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [address, pictures, executablePath, ...wanted] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${process.cwd()}/`));
const { chromium } = require("playwright-core");
const axe = require.resolve("axe-core/axe.min.js");

const SCREENS = [
  { name: "light", viewport: { width: 1440, height: 900 }, colorScheme: "light" },
  { name: "dark", viewport: { width: 1440, height: 900 }, colorScheme: "dark" },
  { name: "phone", viewport: { width: 390, height: 844 }, colorScheme: "light" },
];
const SERIOUS = ["serious", "critical"];
const MAX_BYTES = 200 * 1024;
const findings = [];

async function json(path) {
  return (await fetch(`${address}/api${path}`)).json();
}

// Pages of what is there at the moment.
async function pages() {
  const all = {
    dashboard: "/", processes: "/processes", groups: "/groups", errors: "/errors", letters: "/letters", topics: "/topics",
    audit: "/audit", cluster: "/cluster", transactions: "/transactions", status: "/status", missing: "/process?id=nobody",
  };
  const { apps } = await json("/processes");
  if (apps.length) all.process = `/process?id=${encodeURIComponent(apps[0].processes[0].id)}`;
  const { groups } = await json("/groups");
  if (groups.length) all.group = `/group?name=${encodeURIComponent(groups[0].group)}`;
  const errors = (await json("/errors")).groups;
  if (errors.length) all.error = `/errors/${errors[0].id}`;
  const letters = (await json("/letters")).topics.filter((one) => one.records);
  if (letters.length) {
    const topic = letters[0].topic;
    all["letters-of-topic"] = `/letters/${topic}`;
    const [letter] = (await json(`/letters/${topic}`)).letters;
    if (letter) all.letter = `/letters/${topic}/${letter.partition}/${letter.offset}`;
  }
  const { topics } = await json("/topics");
  if (topics.length) {
    const topic = (topics.find((one) => one.name === "orders") || topics[0]).name;
    all.topic = `/topics/${topic}`;
    all.records = `/topics/${topic}/records`;
    const [record] = (await json(`/topics/${topic}/records`)).records;
    if (record) all.record = `/topics/${topic}/${record.partition}/${record.offset}`;
  }
  return all;
}

// Sends a command as a person does: a button, the page that asks again, and the answer of the process.
async function command() {
  const { apps } = await json("/processes");
  if (!apps.length) return findings.push("command: no process reports");
  const page = await browser.newPage();
  await page.goto(`${address}/process?id=${encodeURIComponent(apps[0].processes[0].id)}`);
  await page.getByRole("button", { name: "Dump stacks" }).click();
  await page.screenshot({ path: `${pictures}/command-light.png` });
  await page.getByRole("button", { name: "Dump stacks" }).click();
  await page.getByText("which are in its log, too").first().waitFor({ timeout: 30000 })
    .catch(() => findings.push("command: no answer"));
  await page.close();
}

mkdirSync(pictures, { recursive: true });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--no-first-run"] });
await command();
const walked = Object.fromEntries(
  Object.entries(await pages()).filter(([name]) => !wanted.length || wanted.includes(name)),
);
let largest = ["", 0];
for (const screen of SCREENS) {
  const { name: _, ...options } = screen;
  const context = await browser.newContext(options);
  const free = await browser.newContext({ ...options, bypassCSP: true });
  for (const [name, path] of Object.entries(walked)) {
    const place = `${name} (${screen.name})`;
    const page = await context.newPage();
    let bytes = 0;
    page.on("pageerror", (error) => findings.push(`${place}: ${error.message}`));
    page.on("console", (message) => {
      if (message.type() === "error" && !(name === "missing")) findings.push(`${place}: ${message.text()}`);
    });
    page.on("dialog", (dialog) => { findings.push(`${place}: a record has run a script`); dialog.dismiss(); });
    page.on("request", (request) => {
      if (!request.url().startsWith(address)) findings.push(`${place}: loads ${request.url()}`);
    });
    page.on("response", async (response) => { bytes += (await response.body().catch(() => "")).length; });
    await page.goto(`${address}${path}`, { waitUntil: "networkidle" });
    await page.screenshot({ path: `${pictures}/${name}-${screen.name}.png` });
    const wider = await page.evaluate(() => document.scrollingElement.scrollWidth - window.innerWidth);
    if (wider > 0) findings.push(`${place}: ${wider} pixels wider than the screen`);
    if (bytes > largest[1]) largest = [place, bytes];
    await page.close();
    const checked = await free.newPage();
    await checked.goto(`${address}${path}`, { waitUntil: "load" });
    await checked.addScriptTag({ path: axe });
    const { violations } = await checked.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    for (const found of violations.filter((one) => SERIOUS.includes(one.impact))) {
      const where = found.nodes.slice(0, 3).map((node) => node.target.join(" "));
      findings.push(`${place}: ${found.impact}: ${found.help} (${found.id}), ${found.nodes.length} times: ${where.join("; ")}`);
    }
    await checked.close();
  }
  await context.close();
  await free.close();
}
await browser.close();
if (largest[1] > MAX_BYTES) findings.push(`${largest[0]}: ${largest[1]} bytes`);
console.log(`${Object.keys(walked).length} pages on ${SCREENS.length} screens, at most ${largest[1]} bytes (${largest[0]})`);
for (const finding of findings) console.log(finding);
process.exit(findings.length ? 1 : 0);
