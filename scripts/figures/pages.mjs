// How long the HTML pages take to answer, in milliseconds of CPU of the page's own thread (so that a busy machine
// does not count), median of three: node scripts/figures/pages.mjs PAGE.html ... prints a line of JSON a page. PUPPETEER
// names a folder in which `npm install puppeteer-core` was run, CHROMIUM the browser if it is not /usr/bin/chromium.
import { createRequire } from "node:module";
import { resolve } from "node:path";

const puppeteer = createRequire(resolve(process.env.PUPPETEER || ".", "from.js"))("puppeteer-core");

const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox"], headless: true });
const median = numbers => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const pause = ms => new Promise(done => setTimeout(done, ms));

async function look(file) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  const client = await page.createCDPSession();
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => (await client.send("Performance.getMetrics")).metrics.find(m => m.name === "TaskDuration").value * 1000;
  const start = await spent();
  await page.goto(`file://${resolve(file)}`);
  await pause(1500);
  const told = { load: (await spent()) - start };
  // a word that much fits, until its rows are laid out; nothing was filtered before
  for (const [name, words] of [["first filter", "fp8"], ["next filter", "is_"], ["no filter", ""]]) {
    const before = await spent();
    await page.evaluate(text => {
      const form = document.forms[0];
      form.elements.q.value = text;
      form.dispatchEvent(new Event("input", { bubbles: true }));
      return document.body.offsetHeight;
    }, words);
    told[name] = (await spent()) - before;
    await pause(700);
  }
  await page.close();
  return told;
}

for (const file of process.argv.slice(2)) {
  const rounds = [];
  for (let n = 0; n < 3; n++) rounds.push(await look(file));
  const took = Object.keys(rounds[0]).map(name => [name, Math.round(median(rounds.map(round => round[name])))]);
  console.log(JSON.stringify(Object.fromEntries([["page", file], ...took])));
}
await browser.close();
