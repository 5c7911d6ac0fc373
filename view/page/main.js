// @ts-check
import { WORDS, HELP } from './words.js';
import { make, byId, button } from './dom.js';
import { embedded, Spans } from './data.js';
import { showVerdict } from './verdict.js';
import { Graph } from './graph.js';
import { TimelineView } from './timeline.js';
import { tabsOf, showTabs } from './tabs.js';
import { Server } from './live.js';
/** @typedef {import('./data.js').PageData} PageData */
/** @typedef {import('./data.js').ListedStory} ListedStory */

/** The state of the page: its data, the shown window of time, and the selection. */
export class App {
  /** @param {PageData} data @param {Server|null} server */
  constructor(data, server) {
    this.data = data;
    this.server = server;
    this.spans = new Spans(data.timeline);
    this.from = 0;
    this.to = Math.max(1, data.timeline.duration_ns);
    this.follows = true;
    this.paused = false;
    /** @type {string|null} */
    this.chosen = null;
    /** @type {ListedStory|null} */
    this.lit = null;
    /** @type {ListedStory|null} */
    this.held = null;
    this.tab = 'components';
    this.pending = false;
    /** A part of the timeline in more detail, if it was requested from the server. @type {{from: number, to: number, data: import('./data.js').TimelineData, spans: Spans}|null} */
    this.detail = null;
    this.asked = '';
    this.nextLook = 0;
    /** The report on the window shown, if the server made one. @type {{from: number, to: number, report: any}|null} */
    this.part = null;
    /** Calls that probes recorded. @type {any} */
    this.calls = data.calls;
    /** Another run for comparison. @type {any} */
    this.other = data.other;
    if (server) {
      this.readCalls();
      server.read('/other').then((other) => { if (other) { this.other = other; showTabs(this); } });
    }
    this.graph = new Graph(this);
    this.timeline = new TimelineView(this);
    this.keys();
    this.showAll();
    byId('skip').textContent = WORDS.skip;
    // A printed page is light, and its drawings are as they are on a light page.
    let theme = document.documentElement.dataset.theme;
    window.addEventListener('beforeprint', () => { theme = document.documentElement.dataset.theme; this.paint('light'); });
    window.addEventListener('afterprint', () => this.paint(theme));
    window.addEventListener('resize', () => { this.graph.fit(); this.draw(); });
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { this.draw(); showTabs(this); });
  }
  showAll() {
    document.title = `${this.data.report.space.name} – Thalweg`;
    showVerdict(this);
    showTabs(this);
    this.draw();
  }
  /** New data of a live run. @param {PageData} data */
  take(data) {
    if (this.paused) return;
    const whole = this.follows && this.from <= 0;
    const by = data.timeline.duration_ns - this.data.timeline.duration_ns;
    const names = (/** @type {PageData} */ of) => of.networks[of.networks.length - 1].nodes.map((node) => node.path).join('\n');
    const sameGraph = names(data) === names(this.data);
    const { depth } = this.graph.network;
    if (this.data.timeline !== data.timeline) this.spans = new Spans(data.timeline);
    this.data = data;
    if (whole) this.to = Math.max(1, data.timeline.duration_ns);
    else if (this.follows) { this.from += by; this.to += by; }
    if (!sameGraph) {
      const same = this.graph.isChosen ? data.networks.findIndex((network) => network.depth === depth) : -1;
      this.graph.level = same >= 0 ? same : this.graph.firstLevel();
      this.graph.tools();
      this.graph.fit();
    }
    showVerdict(this);
    // A field in which the user is typing is not replaced.
    const active = document.activeElement;
    if (!(active && byId('tab').contains(active) && active instanceof HTMLInputElement)) showTabs(this);
    this.draw();
    if (!whole && performance.now() > this.nextLook) { this.nextLook = performance.now() + 1000; this.look(); }
    const live = data.live;
    if (this.server && live && !live.running) this.server.showState(data.report.window.state === 'killed' ? WORDS.killed : WORDS.ended);
  }
  /** Whether the whole run is shown, and not a window of it. */
  get isWhole() {
    return this.from <= 0 && this.to >= this.data.timeline.duration_ns * (1 - 1e-9);
  }
  /** The report on the window shown, or on all that the page has. @returns {any} */
  get report() {
    const { part } = this;
    return part !== null && part.from === this.from && part.to === this.to ? part.report : this.data.report;
  }
  /** Requests the report on the window shown, if the server can make one. */
  askReport() {
    const { server, from, to } = this;
    if (!server || this.isWhole || !this.data.live || this.data.live.running) return;
    server.read('/report', { from: String(from), to: String(to) }).then((report) => {
      if (!report || this.from !== from || this.to !== to) return;
      this.part = { from, to, report };
      this.draw();
      showTabs(this);
    });
  }
  /** Stops and resumes the updates of a live page. */
  pause() {
    this.paused = !this.paused;
    this.timeline.tools();
  }
  /** The lanes of the time shown: those requested in more detail, or those of the page. @returns {{data: import('./data.js').TimelineData, spans: Spans}} */
  get lanes() {
    const { detail } = this;
    const holds = detail !== null && detail.from <= this.from && detail.to >= this.to && this.spans.exactFrom > this.from;
    return holds ? detail : { data: this.data.timeline, spans: this.spans };
  }
  /** Requests more detail for the shown time, if the server may have more. */
  look() {
    const { server, from, to } = this;
    const { spans, data } = this.lanes;
    const steps = (to - from) / Math.max(1, ...data.processes.map((process) => process.step_ns));
    if (!server || spans.exactFrom <= from || steps > 700 || (this.detail !== null && data === this.detail.data && steps > 250)) return;
    const margin = (to - from) / 4;
    const [first, last] = [Math.max(0, from - margin), to + margin];
    const behind = Math.max(to, Math.min(last, this.data.timeline.duration_ns));
    const asked = `${Math.round(first)} ${Math.round(last)}`;
    if (this.asked === asked) return;
    this.asked = asked;
    server.read('/timeline', { from: String(first), to: String(last) }).then((found) => {
      if (!found || this.asked !== asked) return;
      this.detail = { from: first, to: behind, data: found, spans: new Spans(found) };
      this.draw();
      this.graphLater();
    });
  }
  /** Updates the figures of the tabs when the shown window of time has stopped moving. */
  graphLater() {
    clearTimeout(this.later);
    this.later = setTimeout(() => showTabs(this), 120);
  }
  readCalls() {
    if (this.server) this.server.read('/calls').then((calls) => { this.calls = calls; showTabs(this); });
  }
  /** Draws once with the next frame, however often this function is called before. */
  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.graph.draw();
      this.timeline.draw();
    });
  }
  /** @param {number} from @param {number} to */
  show(from, to) {
    const whole = Math.max(1, this.data.timeline.duration_ns);
    const length = Math.min(Math.max(to - from, 20), whole);
    this.from = Math.max(0, Math.min(from, whole - length));
    this.to = this.from + length;
    this.follows = this.to >= whole * (1 - 1e-9);
    this.draw();
    this.graphLater();
    clearTimeout(this.looking);
    this.looking = setTimeout(() => this.look(), 80);
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.askReport(), 400);
  }
  /** @param {string|null} path */
  choose(path) {
    this.chosen = path === this.chosen ? null : path;
    showTabs(this);
    this.draw();
  }
  /** Whether a component is the chosen one or inside of it. @param {string} path */
  holds(path) {
    return this.chosen === null || path === this.chosen || path.startsWith(`${this.chosen}/`);
  }
  /** Whether figures come from a report, and not from the lanes of the window shown. */
  get isReported() {
    return this.isWhole || this.report !== this.data.report;
  }
  /** The time of components' tasks in each state, in the window shown or in the whole report. @param {any[]} components @returns {number[]} */
  timesOf(components) {
    const sums = [0, 0, 0, 0];
    for (const { path, work } of components) {
      if (this.isReported) {
        if (!work.shares) continue;
        ['busy', 'input_wait', 'output_wait', 'ready'].forEach((key, n) => { sums[n] += work.shares[key] * (work.lifetime_ns || 1); });
        continue;
      }
      const { data, spans } = this.lanes;
      spans.lanesOf(path).forEach((n) => {
        const task = data.tasks[n];
        const exact = task.id !== null && spans.exactFrom <= this.from;
        const of = exact ? spans.tasks[n].sums(this.from, this.to) : spans.summed(task, this.from, this.to);
        of.forEach((time, state) => { sums[state] += time; });
      });
    }
    return sums;
  }
  /** The division of the time of components' tasks. @param {any[]} components @returns {number[]|null} */
  sharesOf(components) {
    const sums = this.timesOf(components);
    const all = sums[0] + sums[1] + sums[2] + sums[3];
    if (components.length === 1 && this.isReported && all > 0) return ['busy', 'input_wait', 'output_wait', 'ready'].map((key) => components[0].work.shares[key]);
    return all > 0 ? sums.map((sum) => sum / all) : null;
  }
  /** How many processors the tasks of components keep busy together. @param {any[]} components @returns {number|null} */
  processorsOf(components) {
    const busy = this.isReported ? components.reduce((sum, { work }) => sum + (work.busy_ns || 0), 0) : this.timesOf(components)[0];
    const length = this.isReported ? this.report.window.duration_ns : this.to - this.from;
    return length > 0 && (!this.isReported || components.some(({ work }) => work.busy_ns !== null)) ? busy / length : null;
  }
  /** @param {ListedStory|null} entry @param {boolean} hold */
  light(entry, hold) {
    if (hold) this.held = entry;
    if (this.lit === entry) return;
    this.lit = entry;
    this.draw();
  }
  /** The story of a message that a task read in a span, if the page has it. @param {string} task @param {number} start @param {number} end @returns {ListedStory|null} */
  storyOf(task, start, end) {
    const reads = (/** @type {import('./data.js').Hop} */ hop) => hop.reader === task && hop.read_ns !== null && hop.read_ns >= start - 1000 && hop.read_ns < end;
    return this.data.stories.find((entry) => entry.story.hops.some(reads)) || null;
  }
  /** @param {number} by */
  nextStory(by) {
    const { stories } = this.data;
    if (stories.length === 0) return;
    const at = this.held ? stories.indexOf(this.held) : by > 0 ? -1 : 0;
    const entry = stories[(at + by + stories.length) % stories.length];
    this.light(entry, true);
    this.lookAt(entry);
    if (this.tab === 'messages') showTabs(this);
  }
  /** Moves the window to the time of a story. @param {ListedStory} entry */
  lookAt(entry) {
    const times = entry.story.hops.flatMap((hop) => [hop.written_ns, hop.read_ns === null ? null : hop.read_ns + (hop.service_ns || 0)]).filter((time) => time !== null);
    if (times.length === 0) return;
    const [first, last] = [Math.min(.../** @type {number[]} */ (times)), Math.max(.../** @type {number[]} */ (times))];
    const margin = Math.max(1000, (last - first) * 0.15);
    this.show(first - margin, last + margin);
  }
  /** @param {string} message @returns {Promise<ListedStory|null>} */
  async ask(message) {
    const here = this.data.stories.find((entry) => entry.story.message === message || entry.story.hops.some((hop) => hop.message === message));
    return here || (this.server ? this.server.story(message) : null);
  }
  /** @param {string} name */
  openTab(name) {
    this.tab = name;
    showTabs(this);
  }
  help() {
    const dialog = /** @type {HTMLDialogElement} */ (byId('help'));
    const entries = HELP.flatMap(([term, sentence, page]) => [make('dt', {}, term), make('dd', {}, `${sentence} `, this.server ? make('a', { href: this.server.address(`/${page}`), target: '_blank', rel: 'noopener' }, page) : make('code', {}, page))]);
    dialog.replaceChildren(make('dl', {}, ...entries), button(WORDS.close, () => dialog.close()));
    dialog.showModal();
  }
  theme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : window.matchMedia('(prefers-color-scheme: dark)').matches;
    this.paint(dark ? 'light' : 'dark');
  }
  /** Draws everything at once in a theme. @param {string|undefined} theme */
  paint(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    this.graph.draw();
    this.timeline.draw();
    showTabs(this);
  }
  keys() {
    document.addEventListener('keydown', (event) => {
      const target = event.target;
      if (event.ctrlKey || event.altKey || event.metaKey || target instanceof HTMLInputElement || target instanceof HTMLSelectElement) return;
      const tabs = tabsOf(this);
      const number = event.key === '0' ? 10 : Number(event.key);
      if (event.key === '?') this.help();
      else if (event.key === 'g') byId('graph').focus();
      else if (event.key === 't') byId('timeline').focus();
      else if (event.key === 'd') this.theme();
      else if (event.key === 'u') this.timeline.unfold();
      else if (event.key === ' ' && !(target instanceof HTMLButtonElement) && this.server) this.pause();
      else if (event.key === 'Escape') { this.chosen = null; this.light(null, true); this.show(0, this.data.timeline.duration_ns); showTabs(this); }
      else if (number >= 1 && number <= tabs.length) this.openTab(tabs[number - 1]);
      else return;
      event.preventDefault();
    });
  }
}

/** Shows the data in the page, or the data that a server sends. */
async function main() {
  try {
    const data = await embedded();
    if (data) { window.thalweg = new App(data, null); return; }
    /** @type {App|null} */
    let app = null;
    const server = new Server((next) => {
      if (app) app.take(next);
      else { app = new App(next, server); window.thalweg = app; app.take(next); }
    });
  } catch (error) {
    byId('state').textContent = WORDS.damaged + String(error);
    byId('state').hidden = false;
  }
}
main();
