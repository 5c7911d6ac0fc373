// @ts-check
import { WORDS } from './words.js';
/** @typedef {{id: number|null, name: string, component: string, process: number, worker: number|null, sums: number[]}} TaskLane */
/** @typedef {{id: number, name: string, process: number, sums: number[]}} WorkerLane */
/** @typedef {{process: number, sums: number[]}} Summed */
/** @typedef {{number: number, at_ns: number, what: string, change: string, model: string, predicted: number|null, gain: [number, number, number]|null, why: string}} Decided */
/** @typedef {{process: number, node: string, direction: string, links: number, messages_per_s: number, bytes_per_s: number, wire_per_s: number, waits: number[], resent: number, queued: number}} LinkEnds */
/** @typedef {{from_ns: number, to_ns: number, lost: number, worker: number|null}} Gap */
/** @typedef {{lane: number[], state: number[], worker: number[], end: number[], length: number[], peer: number[], stream: number[], first: number[], count: number[]}} Columns */
/** @typedef {{duration_ns: number, exact_from_ns: number|null, processes: {name: string, sums_from_ns: number, step_ns: number}[], workers: WorkerLane[], tasks: TaskLane[], spans: Columns, gaps: Gap[], decisions: Decided[], links: LinkEnds[]}} TimelineData */
/** @typedef {{path: string, components: number[], x: number, y: number, width: number, height: number}} GraphNode */
/** @typedef {{from: number, to: number, streams: number[], points: number[], label: [number, number]}} GraphLine */
/** @typedef {{depth: number|null, width: number, height: number, nodes: GraphNode[], edges: GraphLine[]}} Network */
/** @typedef {{message: string, depth: number, parent: string|null, stream: string|null, writer: string|null, written_ns: number|null, reader: string|null, worker: number|string|null, read_ns: number|null, waited_ns: number|null, service_ns: number|null, fate: string}} Hop */
/** @typedef {{times: any, story: {message: string, input: string|null, hops: Hop[], cut_short: boolean}}} ListedStory */
/** @typedef {{schema: string, version: number, report: any, text: string, networks: Network[], timeline: TimelineData, stories: ListedStory[], settings: {name: string, value: string, default: string, range: string, about: string}[], calls: any, other: any, live: any}} PageData */

/** Reads the data in the page; null if the page is served without data.
 * @returns {Promise<PageData|null>} */
export async function embedded() {
  const element = document.getElementById('data');
  if (!element) return null;
  const text = atob((element.textContent || '').trim());
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return checked(JSON.parse(await new Response(stream).text()));
}
/** @param {any} data @returns {PageData} */
export function checked(data) {
  if (!data || data.schema !== 'thalweg.page' || data.version !== 1) throw new Error(WORDS.otherVersion);
  return data;
}

/** A timeline with the changes since, as `Changes` (view/src/changes.rs) encodes them. @param {TimelineData} old @param {any} by @returns {TimelineData} */
export function changed(old, by) {
  const sums = (/** @type {{sums: number[]}[]} */ lanes, /** @type {number[][]} */ all) => lanes.map((lane, n) => (all[n].length === 1 && all[n][0] === lane.sums.length ? lane : { ...lane, sums: lane.sums.slice(0, all[n][0]).concat(all[n].slice(1)) }));
  const tasks = /** @type {TaskLane[]} */ (sums(old.tasks, by.tasks));
  for (const [n, worker] of by.moved) tasks[n] = { ...tasks[n], worker };
  const begin = (/** @type {{exact_from_ns: number|null}} */ of) => Math.round(of.exact_from_ns || 0);
  const before = old.spans.end.slice(0, by.dropped).reduce((sum, end) => sum + end, begin(old));
  const column = (/** @type {number[]} */ then, /** @type {number[]} */ more) => then.slice(by.dropped, by.dropped + by.kept).concat(more);
  const spans = /** @type {Columns} */ (Object.fromEntries(Object.entries(old.spans).map(([name, then]) => [name, column(then, by.spans[name])])));
  if (by.kept > 0) spans.end[0] += before - begin(by);
  return { ...old, duration_ns: by.duration_ns, exact_from_ns: by.exact_from_ns, processes: by.processes, workers: /** @type {WorkerLane[]} */ (sums(old.workers, by.workers)), tasks, spans,
    gaps: by.gaps || old.gaps, decisions: by.decisions || old.decisions, links: by.links || old.links };
}

/** The spans of one lane in order, each with the sums of all spans before it, so that the states in any window need
 * only two lookups. */
export class Lane {
  /** @param {number} size */
  constructor(size) {
    this.start = new Float64Array(size);
    this.end = new Float64Array(size);
    this.state = new Uint8Array(size);
    this.task = new Int32Array(size);
    this.index = new Int32Array(size);
    /** The time in each state before each span. */
    this.before = [0, 1, 2, 3].map(() => new Float64Array(size + 1));
    this.size = 0;
  }
  /** @param {number} start @param {number} end @param {number} state @param {number} task @param {number} index */
  push(start, end, state, task, index) {
    const n = this.size++;
    // Spans of a lane do not overlap, except by rounding, and such overlaps are cut.
    this.start[n] = n > 0 ? Math.max(start, this.end[n - 1]) : start;
    this.end[n] = Math.max(end, this.start[n]);
    this.state[n] = state;
    this.task[n] = task;
    this.index[n] = index;
    for (let s = 0; s < 4; s++) this.before[s][n + 1] = this.before[s][n] + (s === state ? this.end[n] - this.start[n] : 0);
  }
  /** The first span that ends after a time. @param {number} time @returns {number} */
  at(time) {
    let low = 0;
    let high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }
  /** Time in each state from the first span to a time. @param {number} time @param {number[]} found @returns {number[]} */
  until(time, found) {
    const n = this.at(time);
    for (let state = 0; state < 4; state++) found[state] = this.before[state][n];
    if (n < this.size && time > this.start[n]) found[this.state[n]] += time - this.start[n];
    return found;
  }
  /** Time in each state in a window. @param {number} from @param {number} to @returns {number[]} */
  sums(from, to) {
    const before = this.until(from, [0, 0, 0, 0]);
    return this.until(to, [0, 0, 0, 0]).map((sum, state) => sum - before[state]);
  }
}

/** The cells of a lane, each with the sums of all cells before it, so that the states in any window of cells need only
 * two lookups. */
class Sums {
  /** @param {number[]} sums @param {number} begin @param {number} step */
  constructor(sums, begin, step) {
    this.begin = begin;
    this.step = step;
    this.size = sums.length >> 2;
    this.before = new Float64Array(4 * (this.size + 1));
    for (let at = 0; at < 4 * this.size; at++) this.before[at + 4] = this.before[at] + (sums[at] / 1000) * step;
  }
  /** Time in each state up to a time. @param {number} time @param {number[]} found @returns {number[]} */
  until(time, found) {
    const place = Math.min(Math.max((time - this.begin) / this.step, 0), this.size);
    const cell = Math.min(Math.floor(place), Math.max(0, this.size - 1));
    const part = this.size > 0 ? place - cell : 0;
    for (let state = 0; state < 4; state++) {
      const before = this.before[4 * cell + state];
      found[state] = part > 0 ? before + (this.before[4 * cell + 4 + state] - before) * part : before;
    }
    return found;
  }
}

/** The timeline, prepared for drawing: exact spans by task and by worker, and sums for the time before these spans. */
export class Spans {
  /** @param {TimelineData} data */
  constructor(data) {
    this.data = data;
    /** The sums of lanes, computed when they are first used. @type {WeakMap<Summed, Sums>} */
    this.known = new WeakMap();
    /** The places of lanes by their components, computed when first used. @type {Map<string, number[]>|null} */
    this.byComponent = null;
    const columns = data.spans;
    const size = columns.lane.length;
    this.exactFrom = data.exact_from_ns === null ? Infinity : data.exact_from_ns;
    /** @type {number[]} */
    const ofTask = new Array(data.tasks.length).fill(0);
    /** @type {Map<number, number>} */
    const ofWorker = new Map();
    for (let n = 0; n < size; n++) {
      if (columns.lane[n] >= 0) ofTask[columns.lane[n]]++;
      if (columns.state[n] === 0 || columns.lane[n] < 0) ofWorker.set(columns.worker[n], (ofWorker.get(columns.worker[n]) || 0) + 1);
    }
    this.tasks = ofTask.map((many) => new Lane(many));
    /** @type {Map<number, Lane>} */
    this.workers = new Map([...ofWorker].map(([id, many]) => [id, new Lane(many)]));
    let end = this.exactFrom === Infinity ? 0 : this.exactFrom;
    for (let n = 0; n < size; n++) {
      end += columns.end[n];
      const [lane, state, start] = [columns.lane[n], columns.state[n], end - columns.length[n]];
      if (lane >= 0) this.tasks[lane].push(start, end, state, lane, n);
      if ((state === 0 || lane < 0) && columns.worker[n] >= 0) /** @type {Lane} */ (this.workers.get(columns.worker[n])).push(start, end, state, lane, n);
    }
  }
  /** The time in each state in a window, from a lane's sums, as shares of the length of the cells in the window.
   * @param {Summed} lane @param {number} from @param {number} to @returns {number[]} */
  summed(lane, from, to) {
    return this.summedOf(this.data, lane, from, to);
  }
  /** The time in each state in a window, from the sums of a lane of another timeline. @param {TimelineData} data @param {Summed} lane @param {number} from @param {number} to @returns {number[]} */
  summedOf(data, lane, from, to) {
    const sums = this.sumsOf(data, lane);
    const before = sums.until(from, [0, 0, 0, 0]);
    return sums.until(to, [0, 0, 0, 0]).map((sum, state) => sum - before[state]);
  }
  /** The sums of a lane. @param {TimelineData} data @param {Summed} lane @returns {Sums} */
  sumsOf(data, lane) {
    let sums = this.known.get(lane);
    if (!sums) {
      const { step_ns: step, sums_from_ns: begin } = data.processes[lane.process] || { step_ns: 1, sums_from_ns: 0 };
      sums = new Sums(lane.sums, begin, step);
      this.known.set(lane, sums);
    }
    return sums;
  }
  /** The lanes of a component's tasks, by their places. @param {string} path @returns {number[]} */
  lanesOf(path) {
    if (!this.byComponent) {
      /** @type {Map<string, number[]>} */
      const all = new Map();
      this.data.tasks.forEach((task, n) => {
        const of = all.get(task.component);
        if (of) of.push(n);
        else all.set(task.component, [n]);
      });
      this.byComponent = all;
    }
    return this.byComponent.get(path) || [];
  }
}
