// @ts-check
import { WORDS } from './words.js';
import { duration, rate, share, count, processors } from './numbers.js';
import { make, byId, table, cell, drawing, shortened, button } from './dom.js';
import { copies } from './verdict.js';
import { tuning, calls, nodes, compare } from './more.js';
/** @typedef {import('./main.js').App} App */

/** The tabs in their order. @type {Record<string, (app: App) => Node[]>} */
export const TABS = { components, latency, occupancy, waiting, messages, workers, tuning, settings, losses, text, calls, nodes, compare };

/** The names of the tabs that have something to show. @param {App} app @returns {string[]} */
export function tabsOf(app) {
  return Object.keys(TABS).filter((name) => (name !== 'calls' || app.calls !== null) && (name !== 'nodes' || app.data.report.spaces.length > 1 || (app.data.timeline.links || []).length > 0) && (name !== 'compare' || app.other !== null));
}

/** @param {App} app */
export function showTabs(app) {
  const names = tabsOf(app);
  const words = /** @type {Record<string, string>} */ (WORDS.tabs);
  byId('tabs').replaceChildren(...names.map((name) => {
    const tab = button(words[name], () => app.openTab(name), { role: 'tab', id: `tab-${name}`, 'aria-selected': String(name === app.tab), 'aria-controls': 'tab', tabindex: name === app.tab ? '0' : '-1' });
    tab.addEventListener('keydown', (event) => {
      const by = { ArrowRight: 1, ArrowLeft: names.length - 1 }[event.key];
      if (by === undefined) return;
      const next = names[(names.indexOf(name) + by) % names.length];
      app.openTab(next);
      byId(`tab-${next}`).focus();
    });
    return tab;
  }));
  const panel = byId('tab');
  panel.setAttribute('aria-labelledby', `tab-${app.tab}`);
  panel.replaceChildren(...aboutWindow(app), ...TABS[app.tab](app));
  byId('text-report').hidden = true;
}

/** The tabs whose figures come from the report, and the tabs that follow the window without a report on it. */
const REPORTED = ['components', 'latency', 'occupancy', 'waiting', 'workers', 'losses'];
const FOLLOWING = ['components', 'workers', 'waiting'];

/** Says whether the figures of a tab are those of the window shown. @param {App} app @returns {Node[]} */
function aboutWindow(app) {
  if (app.isWhole || !REPORTED.includes(app.tab)) return [];
  const follows = app.report !== app.data.report || (FOLLOWING.includes(app.tab) && (app.tab !== 'waiting' || matrixInWindow(app) !== null));
  return [make('p', { class: 'said', id: 'about-window' }, follows ? WORDS.ofPart : WORDS.ofWhole)];
}

/** @param {App} app @returns {Node[]} */
function components(app) {
  const rows = app.report.components.filter((/** @type {any} */ component) => app.holds(component.path)).map((/** @type {any} */ component) => {
    const { work } = component;
    const shares = app.sharesOf([component]) || [null, null, null, null];
    return [component.path, component.kind, cell(component.tasks, count), cell(work.messages_in, count), cell(work.messages_out, count),
      cell(app.processorsOf([component]), processors), ...shares.map((part) => cell(part, share)), cell(work.service_ns, duration), cell(work.failed, count)];
  });
  return [table(WORDS.tabs.components, [WORDS.component, WORDS.kind, WORDS.tasks, WORDS.readCount, WORDS.writtenCount, WORDS.processors, ...WORDS.states, WORDS.aMessage, WORDS.failed], rows)];
}

/** @param {any} of @returns {({text: string, value?: unknown})[]} */
function distribution(of) {
  return [...['mean_ns', 'jitter_ns', 'min_ns', 'p50_ns', 'p90_ns', 'p99_ns', 'max_ns'].map((key) => cell(of[key], duration)), cell(of.count, count)];
}

/** @param {App} app @returns {Node[]} */
function latency(app) {
  const { report } = app;
  const kinds = /** @type {Record<string, string>} */ (WORDS.distributions);
  const known = Object.keys(kinds).filter((key) => report.latency[key]);
  const parts = [];
  if (known.length === 0) parts.push(make('p', {}, WORDS.nothingHere + WORDS.noEvents));
  else {
    const heads = WORDS.distribution.slice();
    parts.push(drawing(30 + 34 * known.length, WORDS.latencyOf, (context, width, colour) => quantiles(context, width, colour, known.map((key) => [kinds[key], report.latency[key]]))));
    parts.push(table(WORDS.latencyOf, heads, known.map((key) => [kinds[key], ...distribution(report.latency[key])])));
  }
  const boxes = report.components.filter((/** @type {any} */ component) => app.holds(component.path) && component.work.service_ns !== null);
  const waits = (/** @type {string} */ path) => report.streams.filter((/** @type {any} */ stream) => stream.reader === path && stream.wait_ns !== null);
  const rows = boxes.map((/** @type {any} */ component) => {
    const waited = waits(component.path).reduce((/** @type {number} */ most, /** @type {any} */ stream) => Math.max(most, stream.wait_ns), 0);
    return { component, waited };
  });
  const most = Math.max(1, ...rows.map((/** @type {any} */ row) => row.component.work.service_ns + row.waited));
  if (rows.length > 0) {
    parts.push(drawing(8 + 18 * Math.min(rows.length, 200), WORDS.latencyBy, (context, width, colour) => {
      rows.slice(0, 200).forEach((/** @type {any} */ row, /** @type {number} */ n) => {
        const scale = (width - 300) / most;
        context.fillStyle = colour.ink;
        context.fillText(shortened(row.component.path, 34), 2, 16 + 18 * n, 196);
        context.fillStyle = colour.starved;
        context.fillRect(200, 6 + 18 * n, row.waited * scale, 12);
        context.fillStyle = colour.busy;
        context.fillRect(200 + row.waited * scale, 6 + 18 * n, Math.max(1, row.component.work.service_ns * scale), 12);
      });
    }));
    parts.push(table(WORDS.latencyBy, [WORDS.component, WORDS.waiting, WORDS.service, ...WORDS.distribution.slice(1)],
      rows.map((/** @type {any} */ { component, waited }) => [component.path, cell(waited, duration), cell(component.work.service_ns, duration), ...(component.service ? distribution(component.service) : WORDS.distribution.slice(1).map(() => cell(null, duration)))])));
  }
  return parts;
}

/** Draws the least, the quantiles 0.5, 0.9 and 0.99, and the greatest of several times, on a scale of powers of ten.
 * @param {CanvasRenderingContext2D} context @param {number} width @param {Record<string, string>} colour @param {[string, any][]} rows */
function quantiles(context, width, colour, rows) {
  const [low, high] = [Math.max(1, Math.min(...rows.map(([, of]) => Math.max(1, of.min_ns)))), Math.max(...rows.map(([, of]) => of.max_ns), 10)];
  const x = (/** @type {number} */ ns) => 120 + (Math.log(Math.max(ns, low) / low) / Math.log(Math.max(high / low, 1.01))) * (width - 140);
  context.strokeStyle = colour.line;
  context.fillStyle = colour.faint;
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power++) {
    const at = x(Math.pow(10, power));
    context.beginPath();
    context.moveTo(at, 16);
    context.lineTo(at, 30 + 34 * rows.length);
    context.stroke();
    context.fillText(duration(Math.pow(10, power)), at + 2, 12);
  }
  rows.forEach(([name, of], n) => {
    const y = 40 + 34 * n;
    context.fillStyle = colour.ink;
    context.fillText(name, 4, y + 4);
    context.strokeStyle = colour.faint;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x(of.min_ns), y);
    context.lineTo(x(of.max_ns), y);
    context.stroke();
    context.fillStyle = colour.busy;
    context.fillRect(x(of.p50_ns), y - 7, Math.max(2, x(of.p90_ns) - x(of.p50_ns)), 14);
    context.fillStyle = colour.ready;
    context.fillRect(x(of.p90_ns), y - 4, Math.max(2, x(of.p99_ns) - x(of.p90_ns)), 8);
    context.fillStyle = colour.blocked;
    context.fillRect(x(of.max_ns) - 1.5, y - 7, 3, 14);
  });
}

/** @param {App} app @returns {Node[]} */
function occupancy(app) {
  const all = app.report.streams.filter((/** @type {any} */ stream) => app.holds(stream.writer || '') || app.holds(stream.reader || ''));
  const known = all.filter((/** @type {any} */ stream) => stream.occupancy && stream.capacity > 0);
  const parts = [];
  if (known.length === 0) parts.push(make('p', {}, WORDS.nothingHere + WORDS.noEvents));
  else {
    const shown = known.slice(0, 200);
    parts.push(drawing(8 + 16 * shown.length, WORDS.occupancyOf, (context, width, colour) => {
      shown.forEach((/** @type {any} */ stream, /** @type {number} */ n) => {
        context.fillStyle = colour.ink;
        context.fillText(shortened(stream.name, 48), 2, 15 + 16 * n, 292);
        const { from_ns: since, step_ns: step, messages } = stream.occupancy;
        // The times of a report on a window count from the window's begin.
        const from = since + (app.report === app.data.report ? 0 : app.from);
        const x = (/** @type {number} */ time) => 300 + ((time - app.from) / (app.to - app.from)) * (width - 300);
        messages.forEach((/** @type {number} */ held, /** @type {number} */ at) => {
          const [left, right] = [Math.max(300, x(from + at * step)), Math.min(width, x(from + (at + 1) * step))];
          if (right <= left) return;
          context.globalAlpha = Math.min(1, held / (stream.capacity * stream.streams));
          context.fillStyle = colour.busy;
          context.fillRect(left, 4 + 16 * n, right - left + 0.5, 14);
        });
        context.globalAlpha = 1;
      });
    }));
  }
  const rows = all.map((/** @type {any} */ stream) => [stream.name, cell(stream.streams, count), cell(stream.capacity, count), cell(stream.occupancy_mean, (value) => (value || 0).toFixed(2)), cell(stream.occupancy_max, count),
    cell(stream.full_share, share), cell(stream.wait_ns, duration), cell(stream.rate_per_s, rate), cell(stream.written, count), cell(stream.read, count)]);
  parts.push(table(WORDS.occupancyOf, [WORDS.stream, '×', WORDS.capacity, WORDS.mean, WORDS.most, WORDS.full, WORDS.waited, WORDS.streamRate, WORDS.writtenCount, WORDS.readCount], rows));
  return parts;
}

/** @param {App} app @returns {Node[]} */
function waiting(app) {
  const { waiting: of } = app.report;
  const inWindow = app.report === app.data.report && !app.isWhole ? matrixInWindow(app) : null;
  const edges = (inWindow || of.matrix).filter((/** @type {any} */ edge) => app.holds(edge.waiter || '') || app.holds(edge.peer || ''));
  const parts = [];
  if (of.deadlock) parts.push(table(WORDS.deadlockOf, [WORDS.task, WORDS.what, WORDS.peer, WORDS.onStream, WORDS.time], of.deadlock.waits.map((/** @type {any} */ wait) => [wait.name, wait.what, wait.peer_name || WORDS.unknown, String(wait.stream ?? ''), cell(wait.ns, duration)])));
  if (edges.length === 0) parts.push(make('p', {}, WORDS.nothingHere + WORDS.noEvents));
  else parts.push(matrix(edges));
  parts.push(table(WORDS.matrixOf, [WORDS.waiter, WORDS.peer, WORDS.what, '×', WORDS.time, WORDS.share], edges.map((/** @type {any} */ edge) => [edge.waiter || WORDS.unknown, edge.peer || WORDS.unknown, edge.what, cell(edge.waits, count), cell(edge.ns, duration), cell(edge.share, share)])));
  parts.push(table(WORDS.rootsOf, [WORDS.task, WORDS.state, WORDS.time, WORDS.share], of.roots.map((/** @type {any} */ root) => [root.name || String(root.task), root.state, cell(root.ns, duration), cell(root.share, share)])));
  if (of.now.length > 0) parts.push(table(WORDS.nowOf, [WORDS.task, WORDS.what, WORDS.peer, WORDS.onStream, WORDS.time], of.now.map((/** @type {any} */ wait) => [wait.name, wait.what, wait.peer_name || WORDS.unknown, String(wait.stream ?? ''), cell(wait.ns, duration)])));
  return parts;
}

/** The waiting matrix of the window shown, from its single spans; null if they are not known. @param {App} app @returns {any[]|null} */
function matrixInWindow(app) {
  const { data, spans } = app.lanes;
  if (spans.exactFrom > app.from) return null;
  /** @type {Map<string, any>} */
  const edges = new Map();
  let whole = 0;
  spans.tasks.forEach((lane, n) => {
    for (let at = lane.at(app.from); at < lane.size && lane.start[at] < app.to; at++) {
      if (lane.state[at] !== 1 && lane.state[at] !== 2) continue;
      const peer = data.spans.peer[lane.index[at]];
      const [waiter, of, what] = [data.tasks[n].component, peer < 0 ? null : data.tasks[peer].component, lane.state[at] === 1 ? 'input' : 'room'];
      const key = `${waiter}\n${of}\n${what}`;
      const edge = edges.get(key) || { waiter, peer: of, what, waits: 0, ns: 0 };
      const ns = Math.min(lane.end[at], app.to) - Math.max(lane.start[at], app.from);
      edges.set(key, { ...edge, waits: edge.waits + 1, ns: edge.ns + ns });
      whole += ns;
    }
  });
  return [...edges.values()].sort((a, b) => b.ns - a.ns).slice(0, 100).map((edge) => ({ ...edge, share: edge.ns / Math.max(1, whole) }));
}

/** @param {any[]} edges @returns {Node} */
function matrix(edges) {
  const names = [...new Set(edges.flatMap((edge) => [edge.waiter || '?', edge.peer || '?']))].slice(0, 40);
  const sums = new Map();
  for (const edge of edges) {
    const key = `${names.indexOf(edge.waiter || '?')} ${names.indexOf(edge.peer || '?')}`;
    sums.set(key, (sums.get(key) || 0) + edge.ns);
  }
  const most = Math.max(...sums.values(), 1);
  return drawing(30 + 18 * names.length, WORDS.matrixOf, (context, width, colour) => {
    const size = Math.min(40, (width - 230) / names.length);
    names.forEach((name, n) => {
      context.fillStyle = colour.ink;
      context.fillText(`${n + 1} ${shortened(name, 36)}`, 2, 40 + 18 * n, 222);
      context.fillText(String(n + 1), 234 + n * size, 20);
    });
    names.forEach((_, row) => names.forEach((__, column) => {
      const sum = sums.get(`${row} ${column}`);
      context.strokeStyle = colour.line;
      context.strokeRect(230 + column * size, 27 + 18 * row, size, 18);
      if (!sum) return;
      context.globalAlpha = 0.15 + 0.85 * (sum / most);
      context.fillStyle = colour.blocked;
      context.fillRect(231 + column * size, 28 + 18 * row, size - 2, 16);
      context.globalAlpha = 1;
    }));
  });
}

/** @param {App} app @returns {Node[]} */
function messages(app) {
  const inWindow = (/** @type {any} */ entry) => entry.story.hops.some((/** @type {any} */ hop) => hop.written_ns !== null && hop.written_ns <= app.to && (hop.read_ns ?? hop.written_ns) + (hop.service_ns || 0) >= app.from);
  const shown = app.data.stories.map((entry, n) => ({ entry, n })).filter(({ entry }) => inWindow(entry) && entry.story.hops.some((hop) => app.chosen === null || app.holds((hop.reader || '').split('[')[0])));
  const list = table(WORDS.storiesOf, [WORDS.message, WORDS.entered, WORDS.total, WORDS.service, WORDS.hops], shown.map(({ entry }) => [entry.story.message,
    cell(entry.story.hops.length > 0 ? entry.story.hops[0].written_ns : null, duration), cell(entry.times && entry.times.end_to_end_ns, duration), cell(entry.times && entry.times.service_ns, duration), cell(entry.story.hops.length, count)]));
  [...list.tBodies[0].rows].forEach((row, at) => {
    const entry = shown[at].entry;
    row.tabIndex = 0;
    if (app.lit === entry) row.className = 'chosen';
    row.addEventListener('pointerenter', () => app.light(entry, false));
    row.addEventListener('pointerleave', () => app.light(app.held, false));
    const choose = () => { app.light(entry, true); app.lookAt(entry); showTabs(app); };
    row.addEventListener('click', choose);
    row.addEventListener('keydown', (event) => { if (event.key === 'Enter') choose(); });
  });
  const field = /** @type {HTMLInputElement} */ (make('input', { 'aria-label': WORDS.ask, placeholder: WORDS.messageForm, size: '16' }));
  const answer = make('span', { role: 'status' });
  const ask = make('form', {}, make('label', {}, `${WORDS.ask} `, field), ' ', make('button', { type: 'submit' }, WORDS.askNow), ' ', answer);
  ask.addEventListener('submit', (event) => {
    event.preventDefault();
    app.ask(field.value.trim()).then((entry) => {
      if (entry) { app.light(entry, true); app.lookAt(entry); showTabs(app); return; }
      const command = `thalweg message ${app.data.report.space.path} ${field.value.trim()}`;
      answer.replaceChildren(`${WORDS.askMissing} `, make('code', {}, command), ' ', copies(command));
    });
  });
  const parts = [ask, list];
  const entry = app.held;
  if (entry) {
    const rows = entry.story.hops.map((hop) => [`${'  '.repeat(Math.min(hop.depth, 20))}${hop.message}`, hop.writer || '', cell(hop.written_ns, duration), cell(hop.waited_ns, duration), hop.reader || '', hop.worker === null ? '' : String(hop.worker), cell(hop.service_ns, duration), hop.fate]);
    parts.push(table(`${WORDS.message} ${entry.story.message}`, [WORDS.message, WORDS.written, WORDS.at, WORDS.waited, WORDS.readBy, WORDS.worker, WORDS.service, WORDS.fate], rows));
  }
  return parts;
}

/** @param {App} app @returns {Node[]} */
function workers(app) {
  const { report } = app;
  const ofWindow = report === app.data.report && !app.isWhole;
  return [table(WORDS.tabs.workers, [WORDS.worker, WORDS.states[0], WORDS.idle, WORDS.own, WORDS.kept, WORDS.unaccounted, WORDS.processor, WORDS.dispatches, WORDS.messages],
    report.workers.map((/** @type {any} */ worker) => {
      const of = worker.shares || {};
      if (ofWindow) {
        // The lanes of workers have the time of tasks and of waiting only.
        const { data, spans } = app.lanes;
        const lane = data.workers.find(({ name }) => name === String(worker.id));
        const exact = lane && spans.exactFrom <= app.from ? spans.workers.get(lane.id) : undefined;
        const [busy, idle] = exact ? exact.sums(app.from, app.to) : lane ? spans.summed(lane, app.from, app.to) : [null, null];
        const part = (/** @type {number|null} */ ns) => cell(ns === null ? null : ns / (app.to - app.from), share);
        return [String(worker.id), part(busy), part(idle), ...[1, 2, 3, 4, 5, 6].map(() => cell(null, share))];
      }
      return [String(worker.id), cell(of.busy, share), cell(of.waiting, share), cell(of.own, share), cell(of.kept, share), cell(of.unaccounted, share), cell(worker.cpu_ns === null ? null : worker.cpu_ns / worker.lifetime_ns, share), cell(worker.dispatches, count), cell(worker.messages, count)];
    }))];
}

/** @param {App} app @returns {Node[]} */
function settings(app) {
  const heads = [WORDS.setting, WORDS.value, WORDS.standard, WORDS.range, WORDS.about];
  const canSet = app.server && app.data.live && app.data.live.running;
  const rows = app.data.settings.map((setting) => {
    /** @type {string|Node} */
    let value = setting.value;
    if (canSet) {
      const field = /** @type {HTMLInputElement} */ (make('input', { value: setting.value, size: '8', 'aria-label': `${setting.name}: ${setting.range}` }));
      const form = make('form', {}, field, ' ', make('button', { type: 'submit' }, WORDS.set));
      form.addEventListener('submit', (event) => { event.preventDefault(); if (app.server) app.server.apply({ set: { setting: setting.name, value: field.value, gain: null } }); });
      value = form;
    }
    return [setting.name, value, setting.default, setting.range, setting.about];
  });
  return [table(WORDS.tabs.settings, heads, rows)];
}

/** @param {App} app @returns {Node[]} */
function losses(app) {
  const { report } = app;
  const { timeline } = app.data;
  const seen = report.window;
  const gaps = timeline.gaps.filter((gap) => gap.to_ns >= app.from && gap.from_ns <= app.to);
  const parts = [table(WORDS.lossesOf, ['', ''], [[WORDS.eventsSeen, cell(seen.events, count)], [WORDS.lost, cell(seen.lost, count)], [WORDS.gapsCount, cell(seen.gaps, count)], [WORDS.malformed, cell(seen.malformed, count)]])];
  const isMissing = (/** @type {any} */ note) => note.code !== 'by_shares';
  if (seen.complete && !report.notes.some(isMissing)) parts.unshift(/** @type {any} */ (make('p', {}, WORDS.none)));
  if (gaps.length > 0) parts.push(table(WORDS.gapsOf, [WORDS.from, WORDS.to, WORDS.worker, WORDS.lost], gaps.slice(0, 500).map((gap) => [cell(gap.from_ns, duration), cell(gap.to_ns, duration), gap.worker === null ? WORDS.unknown : String(gap.worker), cell(gap.lost, count)])));
  if (report.broken.length > 0) parts.push(table(WORDS.brokenOf, [WORDS.stream, WORDS.what, WORDS.writtenCount, WORDS.readCount], report.broken.map((/** @type {any} */ stream) => [stream.name, stream.what, cell(stream.written, count), cell(stream.read, count)])));
  if (report.failures.length > 0) parts.push(table(WORDS.failuresOf, [WORDS.message, WORDS.component, WORDS.at], report.failures.map((/** @type {any} */ failure) => [failure.message, failure.component || WORDS.unknown, cell(failure.at_ns, duration)])));
  if (report.notes.length > 0) parts.push(table(WORDS.notesOf, ['', ''], report.notes.map((/** @type {any} */ note) => [note.code, note.text])));
  const { overhead } = report;
  parts.push(table(WORDS.costOf, ['', ''], [[WORDS.share, cell(overhead.share, share)], [WORDS.time, cell(overhead.ns, duration)], [WORDS.bytes, cell(overhead.bytes, count)]]));
  return parts;
}

/** @param {App} app @returns {Node[]} */
function text(app) {
  return [make('pre', {}, app.data.text)];
}
