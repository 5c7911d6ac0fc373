// @ts-check
import { WORDS } from './words.js';
import { duration, moment, count } from './numbers.js';
import { make, byId, canvasOf, button, colours, prepared, shortened } from './dom.js';
import { Pixels } from './pixels.js';
/** @typedef {import('./main.js').App} App */
/** @typedef {import('./data.js').Lane} Lane */
/** @typedef {{title: string, indent: number, height: number, worker: number|null, task: number, lane: Lane|undefined, sums: import('./data.js').Summed, shared: boolean}} Row */

const NAMES = 190;
/** The largest number of spans in the window that are drawn one by one; if there are more, columns of sums are drawn. */
const SPANS_DRAWN = 400;
const AXIS = 20;
/** Of a run with more events, no story is requested only because the pointer rests on a message. */
const EVENTS_ASKED = 5e6;
const STATES = ['busy', 'starved', 'blocked', 'ready'];

/** Draws the timeline: a lane for each worker, which unfolds into a lane for each task. */
export class TimelineView {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = canvasOf('timeline');
    this.overview = canvasOf('overview');
    this.unfolded = app.data.timeline.workers.length === 0;
    this.scrolled = 0;
    /** The places between which a window is being chosen with the mouse. @type {[number, number]|null} */
    this.brushed = null;
    /** Stories that were requested because the pointer rested on their message. @type {Map<string, import('./data.js').ListedStory|null>} */
    this.stories = new Map();
    this.rests = '';
    /** The number of items in the last drawing. */
    this.items = 0;
    this.pixels = new Pixels();
    /** The data from which the strip was last drawn; `stripDrawn` is the strip without the window. @type {any[]} */
    this.stripOf = [];
    this.stripDrawn = document.createElement('canvas');
    byId('timeline-title').textContent = WORDS.timeline;
    this.canvas.setAttribute('aria-label', WORDS.timelineLabel);
    this.tools();
    this.listen();
  }
  tools() {
    const keys = make('ul', { class: 'keys' }, ...STATES.map((state, n) => make('li', {}, make('span', { class: `key ${state}` }), WORDS.stateTexts[n])),
      make('li', {}, make('span', { class: 'key gap' }), WORDS.gap));
    const { app } = this;
    const pause = app.server ? [button(app.paused ? WORDS.goOn : WORDS.pause, () => { app.pause(); byId('pause').focus(); }, { id: 'pause', 'aria-pressed': String(app.paused) })] : [];
    byId('timeline-tools').replaceChildren(keys, ...pause,
      button(WORDS.unfold, () => this.unfold(), { id: 'unfold', 'aria-pressed': String(this.unfolded) }),
      button(WORDS.larger, () => this.zoom(0.5), { 'aria-label': WORDS.zoomIn }), button(WORDS.smaller, () => this.zoom(2), { 'aria-label': WORDS.zoomOut }),
      button(WORDS.allTime, () => this.app.show(0, this.app.data.timeline.duration_ns)));
  }
  unfold() {
    this.unfolded = !this.unfolded;
    this.scrolled = 0;
    byId('unfold').setAttribute('aria-pressed', String(this.unfolded));
    this.app.draw();
  }
  /** @returns {Row[]} */
  rows() {
    const { data: timeline, spans } = this.app.lanes;
    const tasksOf = (/** @type {number|null} */ worker) => timeline.tasks.map((task, n) => ({ task, n })).filter(({ task }) => task.worker === worker && this.app.holds(task.component));
    const taskRow = (/** @type {{task: any, n: number}} */ { task, n }) => ({ title: task.name, indent: 12, height: 16, worker: task.worker, task: n, lane: spans.tasks[n], sums: task, shared: task.id === null });
    /** @type {Row[]} */
    const rows = [];
    for (const worker of timeline.workers) {
      rows.push({ title: `${WORDS.worker} ${worker.name}`, indent: 0, height: 26, worker: worker.id, task: -1, lane: spans.workers.get(worker.id), sums: worker, shared: false });
      if (this.unfolded) rows.push(...tasksOf(worker.id).map(taskRow));
    }
    rows.push(...tasksOf(null).map(taskRow).map((row) => ({ ...row, indent: 0, title: row.title })));
    return rows;
  }
  draw() {
    const rows = this.rows();
    const axis = AXIS;
    const wanted = axis + 8 + rows.reduce((sum, row) => sum + row.height, 0);
    const tall = `${Math.max(120, Math.min(440, wanted))}px`;
    if (this.canvas.style.height !== tall) this.canvas.style.height = tall;
    const { context, width, height } = prepared(this.canvas);
    const colour = colours();
    const all = rows.reduce((sum, row) => sum + row.height, 0);
    this.scrolled = Math.max(0, Math.min(this.scrolled, all - (height - axis)));
    this.items = 0;
    // The lanes are drawn first, and then the texts on and beside the lanes.
    this.pixels.begin(context, width - NAMES, height - axis);
    const points = STATES.map((state) => this.pixels.point(colour[state]));
    let y = axis - this.scrolled;
    const shown = [];
    for (const row of rows) {
      if (y + row.height > axis && y < height) {
        this.row(row, y, width, points);
        shown.push({ row, y });
      }
      y += row.height;
    }
    this.pixels.end(context, NAMES, axis);
    for (const { row, y } of shown) this.texts(context, row, y, width, colour);
    context.clearRect(0, 0, width, axis);
    this.axis(context, width, axis, colour);
    this.gaps(context, rows, axis, width, height, colour);
    this.story(context, rows, axis, colour);
    if (this.brushed) {
      context.globalAlpha = 0.25;
      context.fillStyle = colour.accent;
      context.fillRect(Math.min(...this.brushed), axis, Math.abs(this.brushed[1] - this.brushed[0]), height - axis);
      context.globalAlpha = 1;
    }
    this.strip(colour);
    this.describeWindow();
    if (rows.length === 0 || this.app.data.timeline.duration_ns <= 0) this.empty(context, width, colour);
  }
  /** @param {CanvasRenderingContext2D} context @param {number} width @param {Record<string, string>} colour */
  empty(context, width, colour) {
    context.fillStyle = colour.faint;
    context.font = '13px system-ui, sans-serif';
    context.fillText(WORDS.nothingHere + WORDS.noEvents, 12, 60, width - 24);
  }
  describeWindow() {
    const { from, to } = this.app;
    const exact = this.app.lanes.spans.exactFrom;
    const detail = exact <= from ? WORDS.exact : exact >= to ? WORDS.summed : WORDS.partlySummed;
    if (!this.hovering) byId('timeline-said').textContent = `${moment(from, (to - from) / 100)} – ${moment(to, (to - from) / 100)} (${duration(to - from)}), ${detail}`;
  }
  /** The horizontal position of a time. @param {number} time @param {number} width @returns {number} */
  x(time, width) {
    return NAMES + ((time - this.app.from) / (this.app.to - this.app.from)) * (width - NAMES);
  }
  /** @param {number} x @returns {number} */
  timeAt(x) {
    return this.app.from + ((x - NAMES) / Math.max(1, this.canvas.clientWidth - NAMES)) * (this.app.to - this.app.from);
  }
  /** The spans of a lane to be drawn one by one: null if they are too many or not known. @param {Row} row @returns {{lane: Lane, first: number, last: number}|null} */
  single(row) {
    const { from, to } = this.app;
    const exactFrom = row.shared ? Infinity : this.app.lanes.spans.exactFrom;
    const { lane } = row;
    if (to <= exactFrom || !lane || lane.size === 0) return null;
    const [first, last] = [lane.at(Math.max(from, exactFrom)), Math.min(lane.size - 1, lane.at(to))];
    return last - first > SPANS_DRAWN ? null : { lane, first, last };
  }
  /** Draws the states of a lane. @param {Row} row @param {number} y @param {number} width @param {number[]} points */
  row(row, y, width, points) {
    const [top, inside] = [y + 2 - AXIS, row.height - 4];
    const { from, to } = this.app;
    const { spans, data } = this.app.lanes;
    const exactFrom = row.shared ? Infinity : spans.exactFrom;
    if (from < exactFrom) this.columns(spans.sumsOf(data, row.sums), from, Math.min(to, exactFrom), top, inside, width, points);
    if (to <= exactFrom || !row.lane || row.lane.size === 0) return;
    const single = this.single(row);
    if (!single) { this.columns(row.lane, Math.max(from, exactFrom), to, top, inside, width, points); return; }
    const { lane, first, last } = single;
    const count = last - first + 1;
    this.items += Math.max(0, count);
    // A span that ends after the window is cut by the picture's edge.
    this.pixels.lane(top, inside, count, (at) => {
      const n = first + at;
      return [this.x(lane.start[n], width) - NAMES, lane.start[n] >= to ? -1 : this.x(lane.end[n], width) - NAMES, points[lane.state[n]]];
    });
  }
  /** Writes the names of a lane and of the spans in it. @param {CanvasRenderingContext2D} context @param {Row} row @param {number} y @param {number} width @param {Record<string, string>} colour */
  texts(context, row, y, width, colour) {
    context.fillStyle = colour.ink;
    context.font = row.task < 0 ? '600 12px system-ui, sans-serif' : '11px system-ui, sans-serif';
    context.fillText(shortened(row.title, row.task < 0 ? 24 : 29), 6 + row.indent, y + row.height / 2 + 4, NAMES - 12 - row.indent);
    const single = row.task < 0 ? this.single(row) : null;
    if (!single) return;
    const { lane, first, last } = single;
    context.fillStyle = colour['on-busy'];
    context.font = '11px system-ui, sans-serif';
    for (let n = first; n <= last && lane.start[n] < this.app.to; n++) {
      const [left, right] = [Math.max(NAMES, this.x(lane.start[n], width)), Math.min(width, this.x(lane.end[n], width))];
      if (right - left <= 46 || lane.task[n] < 0) continue;
      context.fillText(shortened(this.app.lanes.data.tasks[lane.task[n]].name, Math.floor((right - left - 6) / 6.2)), left + 3, y + row.height / 2 + 4, right - left - 6);
    }
  }
  /** Draws sums, a column for each step of two points. @param {{until: (time: number, found: number[]) => number[]}} lane @param {number} from @param {number} to @param {number} y @param {number} height @param {number} width @param {number[]} points */
  columns(lane, from, to, y, height, width, points) {
    const step = 2;
    const [left, right] = [Math.max(NAMES, this.x(from, width)), Math.min(width, this.x(to, width))];
    let before = lane.until(this.timeAt(left), [0, 0, 0, 0]);
    let behind = [0, 0, 0, 0];
    this.pixels.columns(y, height, left - NAMES, right - NAMES, step, points, (x, heights) => {
      const [a, b] = [x + NAMES, Math.min(x + NAMES + step, right)];
      lane.until(this.timeAt(b), behind);
      const whole = Math.max(this.timeAt(b) - this.timeAt(a), behind[0] + behind[1] + behind[2] + behind[3] - before[0] - before[1] - before[2] - before[3]);
      let [sum, high, same] = [0, 0, true];
      for (let state = 0; state < 4; state++) {
        sum += behind[state] - before[state];
        // Heights are rounded to halves of a point, so that all states together are as high as the lane.
        const until = Math.round((sum / whole) * height * 2) / 2;
        same = same && heights[state] === until - high;
        heights[state] = until - high;
        high = until;
      }
      if (!same) this.items++;
      [before, behind] = [behind, before];
    });
  }
  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height @param {Record<string, string>} colour */
  axis(context, width, height, colour) {
    const { from, to } = this.app;
    const wanted = (to - from) / Math.max(2, (width - NAMES) / 110);
    const power = Math.pow(10, Math.floor(Math.log10(Math.max(wanted, 1e-3))));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted) || power;
    context.fillStyle = colour.faint;
    context.strokeStyle = colour.line;
    context.lineWidth = 1;
    context.font = '11px system-ui, sans-serif';
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      const x = this.x(time, width);
      context.fillText(moment(time, step), x + 3, 13);
      context.beginPath();
      context.moveTo(x + 0.5, 0);
      context.lineTo(x + 0.5, height);
      context.stroke();
    }
    context.fillStyle = colour.accent;
    for (const { at_ns: at } of this.app.data.timeline.decisions) {
      const x = this.x(at, width);
      if (x >= NAMES && x <= width) context.fillText('◆', x - 5, height - 1);
    }
  }
  /** @param {CanvasRenderingContext2D} context @param {Row[]} rows @param {number} top @param {number} width @param {number} height @param {Record<string, string>} colour */
  gaps(context, rows, top, width, height, colour) {
    for (const gap of this.app.lanes.data.gaps) {
      if (gap.to_ns < this.app.from || gap.from_ns > this.app.to) continue;
      const left = Math.max(NAMES, this.x(gap.from_ns, width));
      const right = Math.max(left + 2, Math.min(width, this.x(gap.to_ns, width)));
      let y = top - this.scrolled;
      for (const row of rows) {
        const hit = gap.worker === null || (row.task < 0 && row.worker === gap.worker);
        if (hit && y + row.height > top && y < height) {
          context.save();
          context.beginPath();
          context.rect(left, Math.max(y + 2, top), right - left, row.height - 4);
          context.clip();
          context.strokeStyle = colour.gap;
          context.lineWidth = 1.5;
          for (let x = left - row.height; x < right; x += 6) {
            context.beginPath();
            context.moveTo(x, y + row.height);
            context.lineTo(x + row.height, y);
            context.stroke();
          }
          context.restore();
        }
        y += row.height;
      }
    }
  }
  /** Highlights a message's story: the spans in which it waited and ran. @param {CanvasRenderingContext2D} context @param {Row[]} rows @param {number} top @param {Record<string, string>} colour */
  story(context, rows, top, colour) {
    const entry = this.app.lit;
    if (!entry) return;
    const width = this.canvas.clientWidth;
    /** @type {Map<string, number>} */
    const places = new Map();
    let y = top - this.scrolled;
    for (const row of rows) {
      places.set(row.task < 0 ? `w${row.title.slice(WORDS.worker.length + 1)}` : row.title, y + row.height / 2);
      y += row.height;
    }
    context.strokeStyle = colour.story;
    context.fillStyle = colour.story;
    context.lineWidth = 2;
    for (const hop of entry.story.hops) {
      if (hop.written_ns === null) continue;
      const from = this.x(hop.written_ns, width);
      const place = (hop.reader !== null && places.get(hop.reader)) || places.get(`w${hop.worker}`);
      const source = (hop.writer !== null && places.get(hop.writer)) || place;
      if (place === undefined || source === undefined) continue;
      const to = hop.read_ns === null ? from : Math.max(from, this.x(hop.read_ns, width));
      if (to < NAMES || from > width) continue;
      context.beginPath();
      context.moveTo(Math.max(NAMES, from), source);
      context.lineTo(Math.max(NAMES, to), place);
      context.stroke();
      if (hop.read_ns !== null) context.fillRect(Math.max(NAMES, to) - 3, place - 4, Math.max(6, this.x(hop.read_ns + (hop.service_ns || 0), width) - to), 8);
    }
  }
  /** Draws the whole run in a strip, with the window in it. @param {Record<string, string>} colour */
  strip(colour) {
    const { context, width, height } = prepared(this.overview);
    const { timeline } = this.app.data;
    const whole = Math.max(1, timeline.duration_ns);
    const of = [this.app.spans, this.overview.width, this.overview.height, colour.busy];
    if (of.some((one, n) => one !== this.stripOf[n])) {
      this.stripOf = of;
      this.drawStrip(width, height, whole, colour);
    }
    // Before the page is laid out, the canvas has no points.
    if (this.stripDrawn.width > 0 && this.stripDrawn.height > 0) context.drawImage(this.stripDrawn, 0, 0, width, height);
    const [left, right] = [this.app.from, this.app.to].map((time) => NAMES + (time / whole) * (width - NAMES));
    context.strokeStyle = colour.accent;
    context.lineWidth = 2;
    context.strokeRect(left + 1, 1, Math.max(3, right - left - 2), height - 2);
    context.fillStyle = colour.faint;
    context.font = '11px system-ui, sans-serif';
    context.fillText(duration(timeline.duration_ns), 6, height / 2 + 4);
  }
  /** @param {number} width @param {number} height @param {number} whole @param {Record<string, string>} colour */
  drawStrip(width, height, whole, colour) {
    const { timeline } = this.app.data;
    const lanes = timeline.workers.length > 0 ? timeline.workers : timeline.tasks;
    const strip = this.stripDrawn;
    [strip.width, strip.height] = [this.overview.width, this.overview.height];
    const context = strip.getContext('2d');
    if (!context) return;
    context.scale(strip.width / Math.max(1, width), strip.height / Math.max(1, height));
    context.fillStyle = colour.busy;
    const step = 2;
    for (let x = NAMES; x < width; x += step) {
      const [a, b] = [x, x + step].map((at) => ((at - NAMES) / (width - NAMES)) * whole);
      const busy = lanes.reduce((sum, lane) => sum + this.app.spans.summed(lane, a, b)[0], 0) / Math.max(1, lanes.length) / (b - a);
      context.fillRect(x, height - busy * (height - 4), step, busy * (height - 4));
    }
  }
  /** @param {number} factor @param {number} [around] */
  zoom(factor, around = (this.app.from + this.app.to) / 2) {
    const { from, to } = this.app;
    this.app.show(around - (around - from) * factor, around + (to - around) * factor);
  }
  /** @param {number} part */
  pan(part) {
    const by = (this.app.to - this.app.from) * part;
    this.app.show(this.app.from + by, this.app.to + by);
  }
  /** The row and its span at a position of the canvas. @param {number} x @param {number} y @returns {{row: Row, n: number}|null} */
  spanAt(x, y) {
    let at = 20 - this.scrolled;
    for (const row of this.rows()) {
      if (y >= at && y < at + row.height) {
        const lane = row.lane;
        const time = this.timeAt(x);
        const n = lane && !row.shared ? lane.at(time) : -1;
        return { row, n: lane && n >= 0 && n < lane.size && lane.start[n] <= time ? n : -1 };
      }
      at += row.height;
    }
    return null;
  }
  /** Describes the span at a position, and highlights the story of a message read there, if the page has it. @param {number} x @param {number} y */
  hover(x, y) {
    const found = x < NAMES ? null : this.spanAt(x, y);
    this.hovering = found !== null && found.n >= 0;
    this.rests = '';
    if (!found || found.n < 0 || !found.row.lane) { this.app.light(this.app.held, false); this.describeWindow(); return; }
    const { row, n } = found;
    const lane = /** @type {Lane} */ (row.lane);
    const { tasks, spans: columns } = this.app.lanes.data;
    const at = lane.index[n];
    const task = lane.task[n] < 0 ? { name: row.title } : tasks[lane.task[n]];
    const peer = columns.peer[at] >= 0 ? ` ${WORDS.waitsFor} ${tasks[columns.peer[at]].name}` : '';
    const read = lane.state[n] === 0 && columns.count[at] > 0 ? `, ${WORDS.reads} ${count(columns.count[at])} ${WORDS.messages}, ${columns.stream[at]}:${columns.first[at]} …` : '';
    byId('timeline-said').textContent = `${task.name}: ${WORDS.stateTexts[lane.state[n]]}${peer}, ${WORDS.at} ${duration(lane.start[n])}, ${WORDS.lasted} ${duration(lane.end[n] - lane.start[n])}${read}`;
    const entry = lane.state[n] === 0 ? this.app.storyOf(task.name, lane.start[n], lane.end[n]) : null;
    const { process } = lane.task[n] < 0 ? { process: 0 } : tasks[lane.task[n]];
    const { name } = this.app.lanes.data.processes[process] || { name: '' };
    this.rests = read ? `${name ? `${name}/` : ''}${columns.stream[at]}:${columns.first[at]}` : '';
    this.app.light(entry || this.stories.get(this.rests) || this.app.held, false);
    if (read && !entry) this.askStory(this.rests);
  }
  /** Requests the story of a message at which the pointer rests. @param {string} message */
  askStory(message) {
    const { server, data } = this.app;
    clearTimeout(this.asking);
    if (!server || this.stories.has(message) || data.report.window.events > EVENTS_ASKED) return;
    this.asking = setTimeout(() => {
      if (this.rests !== message) return;
      this.stories.set(message, null);
      server.story(message).then((entry) => {
        this.stories.set(message, entry);
        if (entry && this.rests === message) this.app.light(entry, false);
      });
    }, 250);
  }
  listen() {
    const { canvas, overview } = this;
    this.hovering = false;
    /** @type {{x: number, from: number, to: number, brush: boolean, moved: boolean}|null} */
    let held = null;
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      if (event.shiftKey) this.pan(event.deltaY / 1000);
      else if (event.offsetX < NAMES) { this.scrolled += event.deltaY; this.app.draw(); }
      else this.zoom(Math.exp(event.deltaY / 400), this.timeAt(event.offsetX));
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      held = { x: event.offsetX, from: this.app.from, to: this.app.to, brush: event.shiftKey, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!held) { this.hover(event.offsetX, event.offsetY); return; }
      held.moved = held.moved || Math.abs(event.offsetX - held.x) > 3;
      if (held.moved && !held.brush) {
        const by = ((held.x - event.offsetX) / Math.max(1, canvas.clientWidth - NAMES)) * (held.to - held.from);
        this.app.show(held.from + by, held.to + by);
      } else if (held.moved) { this.brushed = [Math.max(NAMES, held.x), Math.max(NAMES, event.offsetX)]; this.app.draw(); }
    });
    canvas.addEventListener('pointerup', (event) => {
      const was = held;
      held = null;
      this.brushed = null;
      if (was && was.moved && was.brush) this.app.show(...this.ordered(this.timeAt(was.x), this.timeAt(event.offsetX)));
      else if (was && !was.moved) {
        const found = this.spanAt(event.offsetX, event.offsetY);
        if (found && found.row.task >= 0) this.app.choose(this.app.lanes.data.tasks[found.row.task].component);
        this.app.light(this.app.lit, true);
      }
    });
    canvas.addEventListener('pointerleave', () => { this.hovering = false; this.rests = ''; this.app.light(this.app.held, false); this.describeWindow(); });
    const inStrip = (/** @type {number} */ x) => ((x - NAMES) / Math.max(1, overview.clientWidth - NAMES)) * this.app.data.timeline.duration_ns;
    /** @type {number|null} */
    let begun = null;
    overview.addEventListener('pointerdown', (event) => { begun = event.offsetX; overview.setPointerCapture(event.pointerId); });
    overview.addEventListener('pointerup', (event) => {
      if (begun === null) return;
      const [from, to] = this.ordered(inStrip(begun), inStrip(event.offsetX));
      const half = (this.app.to - this.app.from) / 2;
      if (Math.abs(event.offsetX - begun) > 3) this.app.show(from, to);
      else this.app.show(from - half, from + half);
      begun = null;
    });
    canvas.addEventListener('keydown', (event) => this.key(event));
  }
  /** @param {number} a @param {number} b @returns {[number, number]} */
  ordered(a, b) {
    return a < b ? [a, b] : [b, a];
  }
  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === 'ArrowLeft') this.pan(-0.2);
    else if (event.key === 'ArrowRight') this.pan(0.2);
    else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') { this.scrolled += event.key === 'ArrowUp' ? -40 : 40; this.app.draw(); }
    else if (event.key === 'Home') this.app.show(0, this.app.to - this.app.from);
    else if (event.key === 'End') this.app.show(this.app.data.timeline.duration_ns - (this.app.to - this.app.from), this.app.data.timeline.duration_ns);
    else if (event.key === '+') this.zoom(0.5);
    else if (event.key === '-') this.zoom(2);
    else if (event.key === 'n' || event.key === 'p') this.app.nextStory(event.key === 'n' ? 1 : -1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
