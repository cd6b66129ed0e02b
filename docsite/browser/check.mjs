// Opens pages of the site in Chromium: wide, on a phone, dark. Writes a picture of each, and reports what axe finds, what
// is wider than the screen, what is loaded from elsewhere, and whether the search of a page that was opened as a file works.
//
//     node check.mjs SITE PICTURES CHROMIUM PAGE...
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [site, pictures, executablePath, ...pages] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${process.cwd()}/`));
const { chromium } = require("playwright-core");
const axe = require.resolve("axe-core/axe.min.js");

const SCREENS = [
  { name: "wide", viewport: { width: 1440, height: 900 }, colorScheme: "light" },
  { name: "phone", viewport: { width: 390, height: 844 }, colorScheme: "light" },
  { name: "dark", viewport: { width: 1440, height: 900 }, colorScheme: "dark" },
];
const SERIOUS = ["serious", "critical"];
const findings = [];

mkdirSync(pictures, { recursive: true });
const browser = await chromium.launch({
  executablePath,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
  ],
});

for (const screen of SCREENS) {
  const context = await browser.newContext({ viewport: screen.viewport, colorScheme: screen.colorScheme });
  for (const name of pages) {
    const page = await context.newPage();
    const place = `${name} (${screen.name})`;
    page.on("request", (request) => {
      if (!request.url().startsWith("file:") && !request.url().startsWith("data:")) {
        findings.push(`${place}: loads ${request.url()}`);
      }
    });
    page.on("pageerror", (error) => findings.push(`${place}: ${error.message}`));
    await page.goto(`${pathToFileURL(site)}/${name}`, { waitUntil: "load" });
    await page.screenshot({ path: `${pictures}/${name.replaceAll("/", "-").replace(".html", "")}-${screen.name}.png` });
    const wider = await page.evaluate(() => document.scrollingElement.scrollWidth - window.innerWidth);
    if (wider > 0) {
      findings.push(`${place}: ${wider} pixels wider than the screen`);
    }
    await page.addScriptTag({ path: axe });
    const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    for (const found of violations.filter((one) => SERIOUS.includes(one.impact))) {
      const where = found.nodes.slice(0, 3).map((node) => node.target.join(" "));
      findings.push(`${place}: ${found.impact}: ${found.help} (${found.id}), ${found.nodes.length} times: ${where.join("; ")}`);
    }
    await page.close();
  }
  await context.close();
}

const page = await browser.newPage({ viewport: SCREENS[0].viewport });
await page.goto(`${pathToFileURL(site)}/index.html`, { waitUntil: "load" });
await page.locator("input[name=query]").click();
await page.locator("input[name=query]").pressSequentially("dead letter");
const result = page.locator(".md-search-result__item").first();
try {
  await result.waitFor({ timeout: 15_000 });
  await page.screenshot({ path: `${pictures}/search.png` });
} catch {
  findings.push("index.html: the search finds nothing when the page is opened as a file");
}
await browser.close();

console.log(findings.length ? findings.join("\n") : `${pages.length} pages on ${SCREENS.length} screens: no finding`);
process.exitCode = findings.length ? 1 : 0;
