// @ts-check
import { WORDS } from './words.js';
import { duration, rate, share, count } from './numbers.js';
import { make, table, cell, drawing, shortened, button } from './dom.js';
/** @typedef {import('./main.js').App} App */

/** A share in percent with its sign. @param {number|null|undefined} part @returns {string} */
function signed(part) {
  if (part === null || part === undefined || !Number.isFinite(part)) return '';
  return `${part >= 0 ? '+' : '−'}${(Math.abs(part) * 100).toFixed(1)} %`;
}

/** The decisions of tuners. @param {App} app @returns {Node[]} */
export function tuning(app) {
  const { decisions } = app.data.timeline;
  if (decisions.length === 0) return [make('p', {}, WORDS.noTuning)];
  const list = table(WORDS.tuningOf, [WORDS.number, WORDS.at, WORDS.decided, WORDS.change, WORDS.model, WORDS.predicted, WORDS.brought, WORDS.why],
    decisions.map((of) => [cell(of.number, count), cell(of.at_ns, duration), of.what, of.change, of.model, signed(of.predicted),
      of.gain ? `${signed(of.gain[0])} (${signed(of.gain[1])} – ${signed(of.gain[2])})` : '', of.why]));
  [...list.tBodies[0].rows].forEach((row, n) => {
    const at = decisions[n].at_ns;
    const length = Math.max(1e6, app.data.timeline.duration_ns / 50);
    const choose = () => app.show(at - length, at + length);
    row.tabIndex = 0;
    row.addEventListener('click', choose);
    row.addEventListener('keydown', (event) => { if (event.key === 'Enter') choose(); });
  });
  return [list];
}

/** The calls that probes recorded. @param {App} app @returns {Node[]} */
export function calls(app) {
  const of = app.calls;
  const again = app.server ? [button(WORDS.again, () => app.readCalls())] : [];
  if (!of || (of.calls === 0 && of.log.length === 0 && of.counters.length === 0 && of.gauges.length === 0)) return [make('p', {}, WORDS.noCalls), ...again];
  const own = of.operations.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.own.sum_ns, 0);
  const names = new Map(of.operations.map((/** @type {any} */ one) => [one.id, one.name]));
  const tree = (/** @type {string} */ caption, /** @type {any[]} */ nodes) => {
    /** @type {number[]} */
    const depths = [];
    nodes.forEach((node) => depths.push(node.parent === null ? 0 : depths[node.parent] + 1));
    return table(caption, [WORDS.operation, WORDS.callCount, WORDS.errors, WORDS.totalTime, WORDS.ownTime],
      nodes.slice(0, 300).map((node, n) => [`${'  '.repeat(Math.min(depths[n], 30))}${names.get(node.operation) || WORDS.unknown}`, cell(node.count, count), cell(node.failed, count), cell(node.total_ns, duration), cell(node.own_ns, duration)]));
  };
  const operations = table(WORDS.operationsOf, [WORDS.operation, WORDS.callCount, WORDS.rate, WORDS.errors, WORDS.ownTime, WORDS.ownShare, `${WORDS.ownTime} p50`, `${WORDS.ownTime} p99`, `${WORDS.totalTime} p50`, `${WORDS.totalTime} p99`],
    of.operations.slice(0, 200).map((/** @type {any} */ one) => [one.name, cell(one.count, count), cell(one.rate, rate), cell(one.failed + one.unwound, count), cell(one.own.sum_ns, duration), cell(own > 0 ? one.own.sum_ns / own : null, share), cell(one.own.p50_ns, duration), cell(one.own.p99_ns, duration), cell(one.total.p50_ns, duration), cell(one.total.p99_ns, duration)]));
  const parts = of.calls > 0 ? [...again, operations] : [...again];
  if (of.graph.nodes.length > 0) parts.push(dependencies(of));
  if (of.tree.length > 0) parts.push(tree(WORDS.treeOf, of.tree));
  if (of.slowest.length > 0) parts.push(table(WORDS.slowestOf, [WORDS.begin, WORDS.time, WORDS.fate], of.slowest.map((/** @type {any} */ one) => [cell(one.begin_s * 1e9, duration), cell(one.total_ns, duration), one.is_failed ? WORDS.failed : ''])));
  if (of.counters.length > 0) parts.push(table(WORDS.countersOf, [WORDS.counter, WORDS.sum, '×'], of.counters.map((/** @type {any} */ one) => [one.name, cell(one.sum, count), cell(one.count, count)])));
  if (of.gauges.length > 0) parts.push(table(WORDS.gaugesOf, [WORDS.gauge, WORDS.last, WORDS.least, WORDS.most, '×'], of.gauges.map((/** @type {any} */ one) => [one.name, cell(one.last, String), cell(one.min, String), cell(one.max, String), cell(one.count, count)])));
  if (of.log.length > 0) parts.push(table(WORDS.logOf, [WORDS.at, WORDS.level, WORDS.place, WORDS.message], of.log.slice(-200).map((/** @type {any} */ line) => [cell(line.time_s * 1e9, duration), line.level, line.place, line.text])));
  return parts;
}

/** The dependency graph, scaled to fit. @param {any} of @returns {HTMLElement} */
function dependencies(of) {
  const { graph } = of;
  const height = Math.min(700, Math.max(120, graph.height + 20));
  const longest = Math.max(1, ...of.edges.map((/** @type {any} */ edge) => edge.total_ns));
  return drawing(height, WORDS.graphOf, (context, width, colour) => {
    const scale = Math.min(1, (width - 10) / Math.max(graph.width, 1), (height - 10) / Math.max(graph.height, 1));
    context.save();
    context.translate(5, 5);
    context.scale(scale, scale);
    for (const line of graph.edges) {
      const edge = of.edges[line.streams[0]];
      const { points } = line;
      context.beginPath();
      context.moveTo(points[0], points[1]);
      for (let at = 2; at < points.length; at += 2) {
        const middle = (points[at - 2] + points[at]) / 2;
        context.bezierCurveTo(middle, points[at - 1], middle, points[at + 1], points[at], points[at + 1]);
      }
      context.strokeStyle = edge.failed > 0 ? colour.blocked : colour.faint;
      context.lineWidth = 1 + 5 * Math.sqrt(edge.total_ns / longest);
      context.setLineDash(edge.is_remote ? [6, 4] : []);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = colour.faint;
      context.fillText(`${count(edge.count)} ×`, line.label[0] + 2, line.label[1] + 12);
    }
    for (const node of graph.nodes) {
      const one = of.operations[node.components[0]];
      context.fillStyle = colour.panel;
      context.fillRect(node.x, node.y, node.width, node.height);
      context.lineWidth = 1;
      context.strokeStyle = one.failed + one.unwound > 0 ? colour.limit : colour.faint;
      context.strokeRect(node.x, node.y, node.width, node.height);
      context.fillStyle = colour.ink;
      context.fillText(shortened(node.path, 28), node.x + 8, node.y + 20, node.width - 16);
      context.fillStyle = colour.faint;
      context.fillText(`${count(one.count)} ×, ${WORDS.ownTime} ${duration(one.own.sum_ns)}`, node.x + 8, node.y + 40, node.width - 16);
    }
    context.restore();
  });
}

/** The processes of the run, and the links between them. @param {App} app @returns {Node[]} */
export function nodes(app) {
  const { spaces } = app.data.report;
  const processes = spaces.length > 0 ? spaces : [app.data.report];
  const parts = [table(WORDS.processesOf, ['', WORDS.process, WORDS.processId, WORDS.host, WORDS.rate, WORDS.out, WORDS.lost, WORDS.limit],
    processes.map((/** @type {any} */ of, /** @type {number} */ n) => [String(n + 1), of.space.name, String(of.space.pid ?? ''), of.space.host || '', cell(of.throughput.entry_per_s, rate), cell(of.throughput.exit_per_s, rate), cell(of.window.lost, count), of.verdict.text]))];
  const links = app.data.timeline.links || [];
  if (links.length > 0) {
    const heads = [WORDS.process, WORDS.direction, WORDS.node, WORDS.links, WORDS.messages, WORDS.payload, WORDS.wire, WORDS.noRoom, WORDS.noPort, WORDS.noBandwidth, WORDS.noConnection, WORDS.queued, WORDS.resent];
    parts.push(table(WORDS.linksOf, heads, links.map((of) => [processes[of.process] ? processes[of.process].space.name : String(of.process + 1), of.direction === 'out' ? '→' : '←', of.node, cell(of.links, count), cell(of.messages_per_s, rate), cell(of.bytes_per_s, rate), cell(of.wire_per_s, rate), ...of.waits.map((part) => cell(part, share)), cell(of.queued, count), cell(of.resent, count)])));
  }
  return parts;
}

/** This run and an older one. @param {App} app @returns {Node[]} */
export function compare(app) {
  const { other } = app;
  if (!other) return [];
  const [old, now] = [other.report, app.data.report];
  const part = (/** @type {number|null|undefined} */ a, /** @type {number|null|undefined} */ b) => (a && b !== null && b !== undefined ? signed(b / a - 1) : '');
  const row = (/** @type {string} */ name, /** @type {any} */ a, /** @type {any} */ b, /** @type {(value: any) => string} */ words) => [name, cell(a, words), cell(b, words), part(a, b)];
  const of = (/** @type {any} */ report) => ({ p99: report.latency.end_to_end ? report.latency.end_to_end.p99_ns : null, p50: report.latency.end_to_end ? report.latency.end_to_end.p50_ns : null });
  const figures = table(WORDS.figuresOf, ['', WORDS.older, WORDS.newer, WORDS.difference], [
    row(WORDS.rate, old.throughput.entry_per_s, now.throughput.entry_per_s, rate), row(WORDS.out, old.throughput.exit_per_s, now.throughput.exit_per_s, rate),
    row('p50', of(old).p50, of(now).p50, duration), row('p99', of(old).p99, of(now).p99, duration), row(WORDS.seen, old.window.duration_ns, now.window.duration_ns, duration),
    row(WORDS.lost, old.window.lost, now.window.lost, count), row(WORDS.cost, old.overhead.share, now.overhead.share, share)]);
  const terms = [[WORDS.limitedBefore, old.verdict.text], [WORDS.limitsNow, now.verdict.text]];
  const comparison = other.comparison;
  if (comparison) {
    const surely = comparison.least === null ? '' : ` (${signed(comparison.least)} – ${signed(comparison.most)}, ${WORDS.surely})`;
    terms.unshift([WORDS.flow, `${signed(comparison.gain)}${surely}`], ...comparison.because.map((/** @type {string} */ text) => [WORDS.because, text]));
  }
  const names = [...new Set([...old.components, ...now.components].map((component) => component.path))];
  const find = (/** @type {any} */ report, /** @type {string} */ path) => report.components.find((/** @type {any} */ component) => component.path === path);
  const rows = names.map((path) => {
    const [a, b] = [find(old, path), find(now, path)];
    const get = (/** @type {any} */ component, /** @type {(work: any) => any} */ what) => (component ? what(component.work) : null);
    const busy = (/** @type {any} */ work) => (work.shares ? work.shares.busy : null);
    const [s, t] = [get(a, (work) => work.service_ns), get(b, (work) => work.service_ns)];
    return [path, cell(get(a, (work) => work.messages_in), count), cell(get(b, (work) => work.messages_in), count), cell(get(a, busy), share), cell(get(b, busy), share), cell(s, duration), cell(t, duration), part(s, t)];
  });
  const heads = [WORDS.component, ...[WORDS.readCount, WORDS.states[0], WORDS.aMessage].flatMap((word) => [`${word}, ${WORDS.older}`, `${word}, ${WORDS.newer}`]), WORDS.difference];
  const parts = [make('dl', { id: 'compared' }, ...terms.flatMap(([term, text]) => [make('dt', {}, term), make('dd', {}, text)])), strips(app, other), figures, table(WORDS.compareOf, heads, rows)];
  if (comparison && comparison.differences.length > 0) parts.push(table(WORDS.differsOf, [WORDS.what, WORDS.older, WORDS.newer], comparison.differences.map((/** @type {any} */ one) => [one.what, one.old, one.new])));
  return parts;
}

/** Both runs' busy workers over time, on one scale. @param {App} app @param {any} other @returns {HTMLElement} */
function strips(app, other) {
  const both = [other.timeline, app.data.timeline];
  const longest = Math.max(1, ...both.map((timeline) => timeline.duration_ns));
  return drawing(100, WORDS.overTime, (context, width, colour) => {
    both.forEach((timeline, n) => {
      const lanes = timeline.workers.length > 0 ? timeline.workers : timeline.tasks;
      const bottom = 46 + 50 * n;
      context.fillStyle = colour.ink;
      context.fillText(`${n === 0 ? WORDS.older : WORDS.newer}: ${duration(timeline.duration_ns)}`, 2, bottom - 14);
      context.fillStyle = colour.busy;
      for (let x = 150; x < width; x += 2) {
        const [from, to] = [x, x + 2].map((at) => ((at - 150) / (width - 150)) * longest);
        const busy = lanes.reduce((/** @type {number} */ sum, /** @type {any} */ lane) => sum + app.spans.summedOf(timeline, lane, from, to)[0], 0) / Math.max(1, lanes.length) / (to - from);
        context.fillRect(x, bottom - busy * 42, 2, busy * 42);
      }
    });
  });
}
