// @ts-check
import { WORDS } from './words.js';
import { duration, rate, share, count, processors } from './numbers.js';
import { make, byId, canvasOf, button, colours, prepared, fitting } from './dom.js';
/** @typedef {import('./main.js').App} App */
/** @typedef {import('./data.js').Network} Network */
/** @typedef {import('./data.js').GraphNode} GraphNode */

/** A network of more nodes is first shown with its nets folded. */
const NODES_SHOWN = 400;
/** The least and the greatest height of the drawing, in pixels of the page. */
const [HEIGHT_MIN, HEIGHT_MAX] = [180, 460];
/** A wide network is broken into at most so many bands, one below the other, as lines of text are. */
const BANDS_MAX = 8;
/** The space between two bands. */
const BAND_GAP = 26;
/** The space before the first column of a band. */
const BAND_MARGIN = 11;
/** The least size of letters, in pixels of the page. */
const LETTERS = 11;
/** Waiting of less than this share of all waiting is not outlined. */
const CRITICAL_MIN = 0.02;

/** Draws the network: boxes are filled by the shares of their tasks' states, and lines are as wide as their rates. */
export class Graph {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = canvasOf('graph');
    this.level = this.firstLevel();
    /** Whether the user chose the level. */
    this.isChosen = false;
    /** The report and the network for which `critical` was computed, and its result. @type {[any, Network|null, Set<number>]} */
    this.criticalOf = [null, null, new Set()];
    this.x = 0;
    this.y = 0;
    this.scale = 0;
    /** The parts of the network that are drawn one below the other, each with its left and right end. @type {{left: number, right: number}[]} */
    this.bands = [];
    this.focus = -1;
    byId('graph-title').textContent = WORDS.graph;
    this.canvas.setAttribute('aria-label', WORDS.graphLabel);
    this.tools();
    this.listen();
  }
  /** The level at which a network is shown first: the most unfolded one that still can be read. @returns {number} */
  firstLevel() {
    return Math.max(0, this.app.data.networks.map((network) => network.nodes.length <= NODES_SHOWN).lastIndexOf(true));
  }
  /** Shows another level. @param {number} level */
  show(level) {
    this.level = Math.max(0, Math.min(level, this.app.data.networks.length - 1));
    this.isChosen = true;
    this.focus = -1;
    this.tools();
    this.fit();
    this.app.draw();
  }
  /** @returns {Network} */
  get network() {
    const all = this.app.data.networks;
    return all[Math.min(this.level, all.length - 1)];
  }
  tools() {
    const tools = [];
    if (this.app.data.networks.length > 1) {
      const select = /** @type {HTMLSelectElement} */ (make('select', { 'aria-label': WORDS.fold }));
      this.app.data.networks.forEach((network, n) => {
        const text = network.depth === null ? WORDS.whole : `${WORDS.fold} ${WORDS.depth} ${network.depth}`;
        select.append(make('option', { value: String(n), ...(n === this.level ? { selected: '' } : {}) }, text));
      });
      select.addEventListener('change', () => { this.show(Number(select.value)); byId('graph-tools').querySelector('select')?.focus(); });
      tools.push(select);
    }
    tools.push(button(WORDS.larger, () => this.zoom(1.25), { 'aria-label': WORDS.zoomIn }), button(WORDS.smaller, () => this.zoom(0.8), { 'aria-label': WORDS.zoomOut }),
      button(WORDS.fit, () => { this.fit(); this.app.draw(); }), button(WORDS.clear, () => this.app.choose(null)),
      button(WORDS.print, () => window.print()), button(WORDS.theme, () => this.app.theme()), button(WORDS.help, () => this.app.help()));
    byId('graph-tools').replaceChildren(...tools);
    const key = (/** @type {string} */ name, /** @type {string} */ text) => make('li', {}, make('span', { class: `key ${name}` }), text);
    byId('graph-keys').replaceChildren(make('li', {}, `▲ ${WORDS.limits}`), ...['line', 'half', 'full'].map((name, n) => key(name, WORDS.lineKeys[n])), key('outlined', WORDS.critical));
  }
  /** Shows the whole network, in as many bands as make it largest; the drawing is only as high as that needs. */
  fit() {
    const { network, canvas } = this;
    const width = canvas.clientWidth;
    const scaleOf = (/** @type {{left: number, right: number}[]} */ bands) => Math.min(1.4, (width - 24) / Math.max(1, ...bands.map((band) => band.right - band.left)), (HEIGHT_MAX - 24) / Math.max(1, this.heightOf(bands)));
    this.bands = [{ left: 0, right: network.width }];
    this.scale = scaleOf(this.bands);
    const columns = network.nodes.length <= NODES_SHOWN ? [...new Set(network.nodes.map((node) => node.x))].sort((a, b) => a - b) : [];
    for (let count = 2; count <= BANDS_MAX && count <= columns.length && this.scale < 1; count++) {
      const bands = broken(columns, network.width, count);
      const scale = scaleOf(bands);
      if (scale > 1.1 * this.scale) { this.bands = bands; this.scale = scale; }
    }
    const [wide, high] = [Math.max(...this.bands.map((band) => band.right - band.left)), this.heightOf(this.bands)];
    const height = Math.round(Math.max(HEIGHT_MIN, Math.min(HEIGHT_MAX, high * this.scale + 60)));
    canvas.style.height = `${height}px`;
    this.x = (width - wide * this.scale) / 2;
    this.y = (height - high * this.scale) / 2;
  }
  /** The height of the network in bands. @param {{left: number, right: number}[]} bands @returns {number} */
  heightOf(bands) {
    return bands.length * (this.network.height + BAND_GAP) - BAND_GAP;
  }
  /** Where a node is drawn, in bands. @param {GraphNode} node @returns {{x: number, y: number}} */
  placeOf(node) {
    const at = Math.max(0, this.bands.findIndex((band) => node.x < band.right));
    return { x: node.x - this.bands[at].left, y: node.y + at * (this.network.height + BAND_GAP) };
  }
  /** @param {number} factor @param {number} [x] @param {number} [y] */
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(4, Math.max(1e-4, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.app.draw();
  }
  /** The shares of the states of a node's tasks in the chosen window, which add up to 1. @param {GraphNode} node @returns {number[]|null} */
  shares(node) {
    return this.app.sharesOf(this.componentsOf(node));
  }
  /** The components of a node, as reported for the window shown. @param {GraphNode} node @returns {any[]} */
  componentsOf(node) {
    const all = node.components.map((n) => this.app.data.report.components[n]);
    const { report } = this.app;
    if (report === this.app.data.report) return all;
    return all.map(({ path }) => report.components.find((/** @type {any} */ one) => one.path === path)).filter((one) => one !== undefined);
  }
  /** The streams of a line, as reported for the window shown. @param {import('./data.js').GraphLine} line @returns {any[]} */
  streamsOf(line) {
    const all = line.streams.map((n) => this.app.data.report.streams[n]);
    const { report } = this.app;
    if (report === this.app.data.report) return all;
    return all.map(({ name, writer, reader }) => report.streams.find((/** @type {any} */ one) => one.name === name && one.writer === writer && one.reader === reader)).filter((one) => one !== undefined);
  }
  /** The places of the lines over which waiting leads to what limits the flow, or to where most waiting leads. @returns {Set<number>} */
  critical() {
    const { report } = this.app;
    const { network } = this;
    if (this.criticalOf[0] === report && this.criticalOf[1] === network) return this.criticalOf[2];
    /** @type {Map<string, number>} */
    const places = new Map();
    network.nodes.forEach((node, n) => node.components.forEach((at) => places.set(this.app.data.report.components[at].path, n)));
    /** @type {Map<number, number[]>} */
    const waiters = new Map();
    for (const { waiter, peer, share: part } of report.waiting.matrix) {
      const [from, to] = [places.get(waiter), places.get(peer)];
      if (part >= CRITICAL_MIN && from !== undefined && to !== undefined && from !== to) waiters.set(to, [...(waiters.get(to) || []), from]);
    }
    let ends = network.nodes.flatMap((node, n) => (this.limits(node) ? [n] : []));
    const [root] = report.waiting.roots;
    const place = root && root.name ? places.get(root.name.split('[')[0]) : undefined;
    if (ends.length === 0 && place !== undefined) ends = [place];
    const reached = new Set(ends);
    /** @type {Set<string>} */
    const pairs = new Set();
    while (ends.length > 0) {
      const peer = /** @type {number} */ (ends.pop());
      for (const waiter of waiters.get(peer) || []) {
        pairs.add(`${waiter} ${peer}`).add(`${peer} ${waiter}`);
        if (!reached.has(waiter)) { reached.add(waiter); ends.push(waiter); }
      }
    }
    const found = new Set(network.edges.flatMap((line, n) => (pairs.has(`${line.from} ${line.to}`) ? [n] : [])));
    this.criticalOf = [report, network, found];
    return found;
  }
  /** @param {GraphNode} node @returns {boolean} */
  limits(node) {
    const verdict = this.app.data.report.verdict;
    const task = verdict.task ? verdict.task.name.split('[')[0] : null;
    const component = verdict.component || task;
    // A verdict about other processes has the component that suffers, which limits nothing.
    if (component && !verdict.text.includes(component)) return false;
    if (component) return node.components.some((n) => this.app.data.report.components[n].path === component);
    return node.components.some((n) => this.app.data.report.components[n].kind === verdict.kind);
  }
  draw() {
    if (this.scale === 0) this.fit();
    const { context, width, height } = prepared(this.canvas);
    const colour = colours();
    const network = this.network;
    const fastest = this.app.report.streams.reduce((/** @type {number} */ most, /** @type {any} */ stream) => Math.max(most, stream.rate_per_s || 0), 1e-9);
    const critical = this.critical();
    this.bands.forEach((band, at) => {
      const top = this.y + at * (network.height + BAND_GAP) * this.scale;
      context.save();
      if (this.bands.length > 1) {
        context.beginPath();
        // Frames of nodes at the right end, and the second frames behind them, are not clipped.
        context.rect(this.x - BAND_MARGIN * this.scale, top - (BAND_GAP / 2) * this.scale, (band.right - band.left + 1.6 * BAND_MARGIN) * this.scale, (network.height + BAND_GAP) * this.scale);
        context.clip();
      }
      context.translate(this.x - band.left * this.scale, top);
      context.scale(this.scale, this.scale);
      const [left, up] = [band.left - this.x / this.scale, -top / this.scale];
      const view = { left: Math.max(left, band.left - BAND_MARGIN), top: up, right: Math.min(left + width / this.scale, band.right), bottom: up + height / this.scale };
      if (at === 0) view.left = left;
      if (at === this.bands.length - 1) view.right = left + width / this.scale;
      network.edges.forEach((line, n) => { if (isSeen(line, view)) this.line(context, line, critical.has(n), fastest, colour); });
      // Above all lines, so that no line crosses a figure.
      network.edges.forEach((line) => { if (isSeen(line, view)) this.label(context, line, colour); });
      network.nodes.forEach((node, n) => {
        if (node.x > view.right || node.y > view.bottom || node.x + node.width < view.left || node.y + node.height < view.top) return;
        this.node(context, node, n === this.focus, colour);
      });
      context.restore();
    });
  }
  /** The messages a second of streams. @param {any[]} streams @returns {number} */
  rateOf(streams) {
    return streams.reduce((sum, stream) => sum + (stream.rate_per_s || 0), 0);
  }
  /** @param {CanvasRenderingContext2D} context @param {any} line @param {boolean} critical @param {number} fastest @param {Record<string, string>} colour */
  line(context, line, critical, fastest, colour) {
    const points = line.points;
    const streams = this.streamsOf(line);
    const perSecond = this.rateOf(streams);
    const fills = streams.filter((stream) => stream.occupancy_mean !== null).map((stream) => stream.occupancy_mean / stream.capacity);
    const fill = fills.length > 0 ? Math.max(...fills) : 0;
    context.beginPath();
    context.moveTo(points[0], points[1]);
    for (let at = 2; at < points.length; at += 2) {
      const [x0, y0, x1, y1] = [points[at - 2], points[at - 1], points[at], points[at + 1]];
      const middle = (x0 + x1) / 2;
      if (Math.abs(y0 - y1) < 0.1 || Math.abs(x0 - x1) < 0.1) context.lineTo(x1, y1);
      else context.bezierCurveTo(middle, y0, middle, y1, x1, y1);
    }
    const thin = 1 / Math.max(this.scale, 1e-3);
    const wide = Math.max(thin, 1.2 + 6 * Math.sqrt(perSecond / fastest));
    if (critical) {
      for (const [more, paint] of /** @type {[number, string][]} */ ([[6, colour.limit], [3, colour.paper]])) {
        context.strokeStyle = paint;
        context.lineWidth = wide + more * Math.min(1.5, thin);
        context.stroke();
      }
    }
    context.strokeStyle = fill > 0.66 ? colour.blocked : fill > 0.33 ? colour.busy : colour.faint;
    context.globalAlpha = 0.45 + 0.55 * Math.min(1, fill);
    context.lineWidth = wide;
    context.stroke();
    context.globalAlpha = 1;
  }
  /** A line's figure, on a patch of paper. @param {CanvasRenderingContext2D} context @param {any} line @param {Record<string, string>} colour */
  label(context, line, colour) {
    const letters = Math.max(LETTERS, LETTERS / this.scale);
    if (letters > 17) return;
    const text = rate(this.rateOf(this.streamsOf(line)));
    const [x, base] = [line.label[0] + 2, line.label[1] + 12];
    context.font = `${letters}px system-ui, sans-serif`;
    context.fillStyle = colour.paper;
    context.fillRect(x - 2, base - 0.85 * letters, context.measureText(text).width + 4, 1.05 * letters);
    context.fillStyle = colour.faint;
    context.fillText(text, x, base);
  }
  /** @param {CanvasRenderingContext2D} context @param {GraphNode} node @param {boolean} focused @param {Record<string, string>} colour */
  node(context, node, focused, colour) {
    const components = this.componentsOf(node);
    const shares = this.shares(node);
    const { x, y, width, height } = node;
    const several = components.reduce((sum, component) => sum + component.tasks, 0) > 1;
    if (several && this.scale > 0.2) {
      context.strokeStyle = colour.faint;
      context.lineWidth = 1;
      context.strokeRect(x + 4, y + 4, width, height);
    }
    context.fillStyle = colour.panel;
    context.fillRect(x, y, width, height);
    if (shares) {
      let at = x;
      ['busy', 'starved', 'blocked', 'ready'].forEach((state, n) => {
        context.fillStyle = colour[state];
        context.fillRect(at, y + height - 12, shares[n] * width, 12);
        at += shares[n] * width;
      });
    }
    const limits = this.limits(node);
    const chosen = this.app.chosen !== null && this.app.holds(node.path);
    context.lineWidth = limits || chosen || focused ? 3 / Math.min(1, Math.max(this.scale, 0.3)) : 1;
    context.strokeStyle = limits ? colour.limit : chosen || focused ? colour.accent : colour.faint;
    context.setLineDash(chosen && !limits ? [6, 3] : []);
    context.strokeRect(x, y, width, height);
    context.setLineDash([]);
    const letters = Math.max(12, LETTERS / this.scale);
    const room = height - 12;
    if (1.2 * letters > room) return;
    const small = Math.max(11, LETTERS / this.scale);
    const hasDetails = 1.25 * (letters + small) <= room;
    context.fillStyle = colour.ink;
    context.font = `600 ${letters}px system-ui, sans-serif`;
    const base = hasDetails ? (room - 1.25 * small + 0.7 * letters) / 2 : (room + 0.7 * letters) / 2;
    context.fillText(fitting(context, (limits ? '▲ ' : '') + node.path, width - 12), x + 6, y + base);
    if (!hasDetails) return;
    context.fillStyle = colour.faint;
    context.font = `${small}px system-ui, sans-serif`;
    const text = this.details(components, shares).find((one) => context.measureText(one).width <= width - 12);
    if (text) context.fillText(text, x + 6, y + base + 1.3 * small);
  }
  /** The second line in a node, from the longest to the shortest: of a line without room a part is left out, and no figure is cut.
   * @param {any[]} components @param {number[]|null} shares @returns {string[]} */
  details(components, shares) {
    const tasks = components.reduce((sum, component) => sum + component.tasks, 0);
    const used = tasks > 1 ? this.app.processorsOf(components) : null;
    const busy = used !== null ? `${processors(used)} ${WORDS.processors}` : shares ? `${WORDS.states[0]} ${share(shares[0])}` : '';
    const service = components.length === 1 && components[0].work.service_ns !== null ? `, ${duration(components[0].work.service_ns)}` : '';
    const what = components.length === 1 ? components[0].kind : `${components.length} ${WORDS.tabs.components.toLowerCase()}`;
    const many = `${what}${tasks > 1 ? ` × ${count(tasks)}` : ''}`;
    return [`${many}  ${busy}${service}`, `${many}  ${busy}`, busy, many].map((text) => text.trim());
  }
  /** @param {number} x @param {number} y @returns {number} */
  nodeAt(x, y) {
    const [inX, inY] = [(x - this.x) / this.scale, (y - this.y) / this.scale];
    return this.network.nodes.findIndex((node) => {
      const at = this.placeOf(node);
      return inX >= at.x && inY >= at.y && inX <= at.x + node.width && inY <= at.y + node.height;
    });
  }
  /** @param {number} n */
  describe(n) {
    const node = this.network.nodes[n];
    this.canvas.title = node ? node.path : '';
    if (!node) { byId('graph-said').textContent = ''; return; }
    const shares = this.shares(node);
    const states = shares ? WORDS.states.map((word, state) => `${word} ${share(shares[state])}`).join(', ') : WORDS.unknown;
    const components = this.componentsOf(node);
    const read = components.reduce((sum, component) => sum + (component.work.messages_in || 0), 0);
    const used = this.app.processorsOf(components);
    const busy = used === null ? '' : `; ${processors(used)} ${WORDS.processors}`;
    byId('graph-said').textContent = `${node.path}: ${states}${busy}; ${WORDS.readCount} ${count(read)}${this.limits(node) ? '; ▲' : ''}`;
  }
  listen() {
    const { canvas } = this;
    /** @type {{x: number, y: number, moved: boolean}|null} */
    let held = null;
    canvas.addEventListener('wheel', (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY); }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => { held = { x: event.offsetX, y: event.offsetY, moved: false }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointermove', (event) => {
      if (!held) { this.describe(this.nodeAt(event.offsetX, event.offsetY)); return; }
      if (Math.abs(event.offsetX - held.x) + Math.abs(event.offsetY - held.y) > 3) held.moved = true;
      if (!held.moved) return;
      this.x += event.offsetX - held.x;
      this.y += event.offsetY - held.y;
      held = { x: event.offsetX, y: event.offsetY, moved: true };
      this.app.draw();
    });
    canvas.addEventListener('pointerup', (event) => {
      const was = held;
      held = null;
      if (!was || was.moved) return;
      const n = this.nodeAt(event.offsetX, event.offsetY);
      this.focus = n;
      this.app.choose(n < 0 ? null : this.network.nodes[n].path);
    });
    canvas.addEventListener('dblclick', (event) => {
      const node = this.network.nodes[this.nodeAt(event.offsetX, event.offsetY)];
      if (node && this.level < this.app.data.networks.length - 1) { this.app.chosen = null; this.show(this.level + 1); showFocus(this, node.path); }
    });
    canvas.addEventListener('keydown', (event) => {
      const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
      const count = this.network.nodes.length;
      if (moves) { this.x += moves[0]; this.y += moves[1]; this.app.draw(); }
      else if (event.key === '[') this.show(this.level - 1);
      else if (event.key === ']') this.show(this.level + 1);
      else if (event.key === '+') this.zoom(1.25);
      else if (event.key === '-') this.zoom(0.8);
      else if ((event.key === 'n' || event.key === 'p') && count > 0) {
        this.focus = (this.focus + (event.key === 'n' ? 1 : count - 1) + (this.focus < 0 && event.key === 'p' ? 1 : 0)) % count;
        this.describe(this.focus);
        this.app.draw();
      } else if (event.key === 'Enter' && this.focus >= 0) this.app.choose(this.network.nodes[this.focus].path);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }
}

/** Moves the network so that the nodes inside a net are in the middle. @param {Graph} graph @param {string} path */
function showFocus(graph, path) {
  const inside = graph.network.nodes.filter((node) => node.path === path || node.path.startsWith(`${path}/`)).map((node) => ({ ...graph.placeOf(node), width: node.width, height: node.height }));
  if (inside.length === 0) return;
  const [left, right] = [Math.min(...inside.map((node) => node.x)), Math.max(...inside.map((node) => node.x + node.width))];
  const [top, bottom] = [Math.min(...inside.map((node) => node.y)), Math.max(...inside.map((node) => node.y + node.height))];
  const [width, height] = [graph.canvas.clientWidth, graph.canvas.clientHeight];
  graph.scale = Math.min(1.4, (width - 60) / Math.max(1, right - left), (height - 60) / Math.max(1, bottom - top));
  graph.x = width / 2 - ((left + right) / 2) * graph.scale;
  graph.y = height / 2 - ((top + bottom) / 2) * graph.scale;
  graph.app.draw();
}

/** Whether a line lies, at least in part, in a part of the drawing. @param {any} line @param {any} view @returns {boolean} */
function isSeen(line, view) {
  const [first, last] = [line.points[0], line.points[line.points.length - 2]];
  return Math.max(first, last) >= view.left && Math.min(first, last) <= view.right;
}

/** Breaks a network with columns of nodes at these places into bands of about as many columns. @param {number[]} columns @param {number} width @param {number} count @returns {{left: number, right: number}[]} */
function broken(columns, width, count) {
  const each = Math.ceil(columns.length / count);
  const bands = [];
  for (let at = 0; at < columns.length; at += each) {
    const [left, next] = [at === 0 ? 0 : columns[at], columns[at + each]];
    bands.push({ left, right: next === undefined ? width : next - BAND_MARGIN });
  }
  return bands;
}
